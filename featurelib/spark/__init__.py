"""Edges to Spark and Delta: session, store, ingest, refine, audit."""
