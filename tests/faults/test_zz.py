import sys,os
sys.path.insert(0,"/tmp/f3")
def test_x():
    import trylib
    trylib.go(os.environ["TRY"].split())
