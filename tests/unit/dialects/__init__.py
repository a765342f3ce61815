"""Tests of the dialects of the scripted model server."""
