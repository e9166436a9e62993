"""Answer questions about one cluster or about two runs: values, without text output.

    why_not    what stands between a cluster and a level, every proof of it, and the way out
    what_if    the verdicts once nodes run other software, are gone or come, or levels moved
    roll       whether software of a release can register, and whether it can be taken back
    describe   every node, what each supports, and who says what is finalized
    nights     who could what when; what two nights found: new, resolved, unchanged, incomparable

Every answer is the core's: of a look, or of a look whose evidence was changed. Nothing is sent.
"""
