"""The scripted model: replies by which any team reaches its end. Pure. Read `replies.py` first."""
