"""Parties that mean harm, as data: what each of them sends. Tests of features that read it take it from here.

`tenant`: schemas, patterns and templates of a tenant who may submit. `bounded`: runs such input in a bounded process.
"""
