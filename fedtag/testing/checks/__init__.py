"""What is asked of everything that computes: functions that raise AssertionError with what a subject breaks.

One that makes no sense of a subject raises SkipTest, with the reason.
"""
