"""The model client, against a scripted server that speaks the OpenAI protocol."""
