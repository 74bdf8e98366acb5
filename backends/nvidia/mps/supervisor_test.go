package mps

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const gib = 1 << 30

// A daemon is ready when it answers and has its limits, not before.
func TestReady(t *testing.T) {
	r := newRig(t, quick())
	r.set("slow", "")
	r.Want(r.config.Plan(map[string]uint64{uuidA: 80 * gib, uuidB: 0}))
	r.until("it was started", func() bool { return r.starts() == 1 })
	if r.NotReady(uuidA) == nil {
		t.Error("it is ready before it answers")
	}
	r.unset("slow")
	r.until("it is ready", r.ready(uuidA, uuidB))
	commands := r.read("commands")
	for _, want := range []string{
		"set_default_device_pinned_mem_limit " + uuidA + " 20480M\n", "set_default_active_thread_percentage 25\n",
	} {
		if !strings.Contains(commands, want) {
			t.Errorf("the daemon did not receive %q, but\n%s", want, commands)
		}
	}
	if strings.Contains(commands, "mem_limit "+uuidB) {
		t.Errorf("a GPU whose memory is not known got a limit:\n%s", commands)
	}
	if env := r.read("env"); !strings.Contains(env, "CUDA_VISIBLE_DEVICES="+uuidA+","+uuidB+"\n") ||
		!strings.Contains(env, "CUDA_MPS_LOG_DIRECTORY="+r.dir+"/log\n") {
		t.Errorf("its environment is\n%s", env)
	}
	if r.NotReady("GPU-other") == nil {
		t.Error("a GPU that is not shared is ready")
	}
}

// A daemon that has other limits than the plan is not ready.
func TestLimitsAreChecked(t *testing.T) {
	r := newRig(t, quick())
	r.set("lie", "")
	r.Want(r.config.Plan(map[string]uint64{uuidA: gib}))
	r.notReady(uuidA, "77 percent instead of 25")
	r.unset("lie")
	r.until("it is ready", r.ready(uuidA))
}

// A daemon that ends is started again with its limits, and its last output is reported. Its
// servers end with it.
func TestRestart(t *testing.T) {
	r := newRig(t, quick())
	r.Want(r.config.Plan(map[string]uint64{uuidA: gib}))
	r.until("it is ready", r.ready(uuidA))
	server := r.pid("server")
	r.set("broken", "")
	_ = unix.Kill(r.pid("pid"), unix.SIGKILL)
	r.notReady(uuidA, "already running")
	r.until("its server ended", func() bool { return gone(server) })
	before := r.starts()
	r.until("it is tried again and again", func() bool { return r.starts() > before+1 })
	r.set("commands", "")
	r.unset("broken")
	r.until("it is ready again", r.ready(uuidA))
	if !strings.Contains(r.read("commands"), "set_default_device_pinned_mem_limit") {
		t.Error("it did not get its limits again")
	}
}

// The end of a daemon's log is reported if it printed nothing.
func TestLog(t *testing.T) {
	r := newRig(t, quick())
	r.Want(r.config.Plan(map[string]uint64{uuidA: gib}))
	r.until("it is ready", r.ready(uuidA))
	text := strings.Repeat("x", 2*maxWords) + "\nFailed to open the device\n"
	if err := os.WriteFile(r.dir+"/log/control.log", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.set("silent", "")
	_ = unix.Kill(r.pid("pid"), unix.SIGKILL)
	r.notReady(uuidA, "Failed to open the device")
}

// A daemon that hangs is not ready, and is ended if it hangs for longer.
func TestSilentDaemon(t *testing.T) {
	timing := quick()
	timing.Answer, timing.Quit = 5*time.Second, 100*time.Millisecond // it must answer within that until it is mute
	r := newRig(t, timing)
	r.Want(r.config.Plan(map[string]uint64{uuidA: gib}))
	r.until("it is ready", r.ready(uuidA))
	pid := r.pid("pid")
	r.set("mute", "")
	r.notReady(uuidA, "did not answer")
	if gone(pid) {
		t.Error("it was ended for one answer that did not come")
	}
	r.until("it is ended", func() bool { return gone(pid) })
	r.unset("mute")
	r.until("another one is ready", r.ready(uuidA))
}

// Changes of GPUs or limits wait until the daemon has no clients; GPUs that the change does
// not affect stay ready meanwhile.
func TestChange(t *testing.T) {
	r := newRig(t, quick())
	r.set("servers", "4711\n")
	r.set("clients", "4712\n")
	r.Want(r.config.Plan(map[string]uint64{uuidA: gib}))
	r.until("it is ready", r.ready(uuidA))
	both := map[string]uint64{uuidA: gib, uuidB: gib}
	r.Want(r.config.Plan(both))
	r.notReady(uuidB, "no process uses it")
	r.set("commands", "")
	r.until("it is asked more than once", func() bool { return strings.Count(r.read("commands"), "get_client_list 4711") > 2 })
	if err := r.NotReady(uuidA); err != nil || r.starts() != 1 {
		t.Errorf("the GPU that it shares is not ready any more (%v), started %d times", err, r.starts())
	}
	r.set("clients", "")
	r.until("both are ready", r.ready(uuidA, uuidB))
	if r.starts() != 2 {
		t.Errorf("started %d times, want twice", r.starts())
	}
	// The same plan is no change.
	r.Want(r.config.Plan(both))
	// Other limits are a change.
	r.Want(r.settings(Settings{Replicas: 2}).Plan(both))
	r.until("the other limits are in force", func() bool { return r.ready(uuidA)() && r.starts() == 3 })
	if !strings.Contains(r.read("commands"), "set_default_active_thread_percentage 50") {
		t.Errorf("the daemon received\n%s", r.read("commands"))
	}
	pid := r.pid("pid")
	r.Want(nil)
	r.until("it is ended", func() bool { return gone(pid) })
}

// A missing program is reported with its path.
func TestNoProgram(t *testing.T) {
	r := newRig(t, quick())
	if err := os.Remove(r.place().program); err != nil {
		t.Fatal(err)
	}
	r.Want(r.config.Plan(map[string]uint64{uuidA: gib}))
	r.notReady(uuidA, r.place().program)
}
