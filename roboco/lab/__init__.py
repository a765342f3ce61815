"""The lab: commands that try a team out beside its work. Each part is imported by its own command alone.

drill    a team under faults, in its own stack       what_if   runs of a recorded task with another team or model
replay   recorded decisions again, and tests of them  servers   the model server and the gate, which tests use too
"""
