"""Answer questions about one cluster or about two runs: values, without text output.

    why_not    what stands between a cluster and a level, every proof of it, and the way out
    describe   every node, what each supports, and who says what is finalized
    setbacks   levels and epochs that fell since an earlier run
    muted      the muted findings of an answer

Every answer is the core's. Nothing is sent.
"""
