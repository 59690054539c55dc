"""Released command-line harnesses, each run whole with a scripted model on the loopback interface.

`python -m benchmarks.conformance.clis --harness claude-code --script same --limit 3 --keep FOLDER` makes one run and
leaves its home folder, its working folder and the requests that it sent in FOLDER.
"""
