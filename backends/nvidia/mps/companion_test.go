package mps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The daemon outlives its backend while it has clients, and the next backend finds it ready
// at once. It ends when no backend is connected and it has no clients.
func TestDaemonOutlivesBackends(t *testing.T) {
	timing := quick()
	timing.Abandoned = 100 * time.Millisecond
	r := newRig(t, timing)
	plan := r.config.Plan(map[string]uint64{uuidA: gib})
	r.set("servers", "4711\n")
	r.set("clients", "4712\n")
	r.Want(plan)
	r.until("it is ready", r.ready(uuidA))
	pid := r.pid("pid")
	r.Close()
	r.set("commands", "")
	r.until("its clients are counted, since it is abandoned", func() bool {
		return strings.Count(r.read("commands"), "get_client_list 4711") > 2
	})
	r.Client = r.client()
	r.Want(plan)
	if err := r.NotReady(uuidA); err != nil {
		t.Errorf("right after the first call of Want: %v", err)
	}
	if now := r.pid("pid"); now != pid || r.starts() != 1 {
		t.Errorf("the daemon is process %d after %d starts, want %d", now, r.starts(), pid)
	}
	r.Close()
	r.set("clients", "")
	r.until("it ended", func() bool { return gone(pid) })
}

// A companion that is stopped ends its daemon, by force if necessary, and the servers.
func TestStop(t *testing.T) {
	for name, stubborn := range map[string]bool{"by the command": false, "by force": true} {
		t.Run(name, func(t *testing.T) {
			timing := quick()
			if stubborn {
				timing.Quit = 200 * time.Millisecond
			}
			r := newRig(t, timing)
			if stubborn {
				r.set("stubborn", "")
			}
			r.Want(r.config.Plan(map[string]uint64{uuidA: gib}))
			r.until("it is ready", r.ready(uuidA))
			pid, server := r.pid("pid"), r.pid("server")
			r.stop()
			if !gone(pid) {
				t.Error("the daemon still runs")
			}
			r.until("the server ended", func() bool { return gone(server) })
			r.notReady(uuidA, "accelmux-nvidia-mps")
		})
	}
}

// A directory has one companion: a second one waits for the end of the first. The daemon of a killed companion ends
// with it.
func TestOneCompanion(t *testing.T) {
	r := newRig(t, quick())
	r.Want(r.config.Plan(map[string]uint64{uuidA: gib}))
	r.until("the first one has the daemon ready", r.ready(uuidA))
	first := r.pid("pid")
	waiting := r.process()
	r.stop()
	r.until("the one that waited has the daemon ready", func() bool { return r.ready(uuidA)() && r.pid("pid") != first })
	pid, server := r.pid("pid"), r.pid("server")
	_ = waiting.Process.Kill()
	r.until("the daemon ended", func() bool { return gone(pid) })
	_ = unix.Kill(server, unix.SIGKILL) // no other process is left to kill it
}

// GPUs are in compute mode EXCLUSIVE_PROCESS while the daemon serves them, and in DEFAULT
// afterwards: also those of a companion that was killed.
func TestExclusive(t *testing.T) {
	const set, reset = "-i GPU-%s -c EXCLUSIVE_PROCESS\n", "-i GPU-%s -c DEFAULT\n"
	modes := func(format string, uuid string) string {
		return strings.ReplaceAll(format, "GPU-%s", uuid)
	}
	r := newRig(t, quick())
	r.stop()
	if err := os.WriteFile(filepath.Join(r.dir, "exclusive"), []byte(uuidB), 0o600); err != nil {
		t.Fatal(err)
	}
	r.run()
	r.until("a killed companion's GPU is released", func() bool { return r.read("modes") == modes(reset, uuidB) })
	r.Want(r.config.Plan(map[string]uint64{uuidA: gib}))
	r.until("it is ready", r.ready(uuidA))
	want := modes(reset, uuidB) + modes(set, uuidA)
	if got := r.read("modes"); got != want {
		t.Errorf("the modes were set so:\n%swant:\n%s", got, want)
	}
	no := false
	r.Want(r.settings(Settings{Replicas: 4, Exclusive: &no}).Plan(map[string]uint64{uuidA: gib}))
	want += modes(reset, uuidA)
	r.until("it is not exclusive any more", func() bool { return r.read("modes") == want && r.NotReady(uuidA) == nil })
	r.set("vgpu", "")
	r.Want(r.config.Plan(map[string]uint64{uuidA: gib}))
	r.notReady(uuidA, "not supported; set mps.exclusive: false")
	r.unset("vgpu")
	r.until("it is ready", r.ready(uuidA))
	r.stop()
	if got := r.read("modes"); !strings.HasSuffix(got, modes(set, uuidA)+modes(reset, uuidA)) {
		t.Errorf("after its end the modes were set so:\n%s", got)
	}
}

// Only the type of an SELinux label changes.
func TestContainerLabel(t *testing.T) {
	for label, want := range map[string]string{
		"system_u:object_r:var_run_t:s0\x00":        "system_u:object_r:container_file_t:s0",
		"system_u:object_r:tmpfs_t:s0:c1,c2":        "system_u:object_r:container_file_t:s0:c1,c2",
		"system_u:object_r:container_file_t:s0\x00": "",
		"unlabeled": "",
	} {
		if got, changes := containerLabel(label); got != want || changes != (want != "") {
			t.Errorf("%q becomes %q, %v; want %q", label, got, changes, want)
		}
	}
}
