"""The end of a command's process: all that was registered for it is done, and nothing that it holds is freed."""

import os
import subprocess
import sys

HELD = """
import atexit, concurrent.futures, threading, time
from medtune.trainer.launch.end import end
class Held:
    def __del__(self):
        print("freed")
held = Held()
atexit.register(print, "registered")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
pool = concurrent.futures.ThreadPoolExecutor(1)
pool.submit(print, "pool")
"""


def ended(stdout: int) -> subprocess.CompletedProcess[str]:
    code = f"{HELD}raise SystemExit(end(3))"
    # Words that wait for the end, as they do unless a user's environment says otherwise.
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    return subprocess.run(
        [sys.executable, "-c", code], check=False, text=True, env=buffered, stdout=stdout, stderr=subprocess.PIPE
    )


def test_threads_pools_and_what_is_registered_come_before_the_end_and_nothing_is_freed() -> None:
    done = ended(subprocess.PIPE)
    assert done.returncode == 3
    assert sorted(done.stdout.split()) == ["pool", "registered", "thread"]
    assert done.stdout.split()[-1] == "registered"
    assert not done.stderr


def test_python_ends_the_process_where_the_last_words_cannot_be_written() -> None:
    """It says so, as it does without us, and with its own status."""
    reads, writes = os.pipe()
    os.close(reads)
    done = ended(writes)
    os.close(writes)
    assert done.returncode == 120
    assert "Broken pipe" in done.stderr
