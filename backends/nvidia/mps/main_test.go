package mps

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/patience"
)

// orphan makes of this program one that shares a GPU by MPS until it is killed. Its
// value is the directory of the rig.
const orphan = "MPS_TEST_ORPHAN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(orphan); dir != "" {
		c, err := New("mps", Settings{
			Replicas: 2, Program: filepath.Join(dir, "nvidia-cuda-mps-control"),
			PipeDir: filepath.Join(dir, "pipe"), LogDir: filepath.Join(dir, "log"),
		}, Root{"/", "/"})
		if err != nil {
			panic(err)
		}
		NewSupervisor(slog.Default(), DefaultTiming()).Want(c.Plan(map[string]uint64{uuidA: 0}))
		select {}
	}
	goleak.VerifyTestMain(m)
}

// control is an nvidia-cuda-mps-control in which all can go wrong: files in its
// pipe directory say how it is.
const control = `#!/bin/sh
cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
if [ "$1" = -f ]; then
	echo start >> starts
	[ -e broken ] && { echo "An instance of this daemon is already running" >&2; exit 1; }
	[ -e silent ] && exit 1
	env > env
	rm -f threads
	sleep 1000 & echo $! > server
	echo $$ > pid.new && mv pid.new pid
	exec sleep 1000
fi
read -r line
[ -e mute ] && exec sleep 1000
[ -e slow ] || kill -0 "$(cat pid 2>/dev/null)" 2>/dev/null || { echo "Cannot find MPS control daemon process"; exit 1; }
[ -e slow ] && exit 1
echo "$line" >> commands
case "$line" in
set_default_active_thread_percentage*) echo "${line#* }.0" > threads ;;
get_default_active_thread_percentage) [ -e lie ] && echo 77.0 || cat threads 2>/dev/null || echo 100.0 ;;
get_server_list) cat servers 2>/dev/null || echo "no server" ;;
get_client_list*) cat clients 2>/dev/null ;;
quit*) [ -e stubborn ] || kill "$(cat pid)" ;;
esac
exit 0
`

const uuidA, uuidB = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"

// rig is a supervisor with a daemon of a test.
type rig struct {
	*Supervisor
	t      *testing.T
	dir    string
	config *Config
}

func newRig(t *testing.T, timing Timing) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	program := filepath.Join(r.dir, "nvidia-cuda-mps-control")
	if err := os.WriteFile(program, []byte(control), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	r.config = r.settings(Settings{Replicas: 4, Program: program})
	if err := os.MkdirAll(r.path(""), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Supervisor = NewSupervisor(slog.New(slog.DiscardHandler), timing)
	t.Cleanup(r.Close)
	return r
}

// settings are those with the rig's directories.
func (r *rig) settings(s Settings) *Config {
	r.t.Helper()
	if s.Program == "" {
		s.Program = r.config.settings.Program
	}
	s.PipeDir, s.LogDir = filepath.Join(r.dir, "pipe"), filepath.Join(r.dir, "log")
	c, err := New("mps", s, Root{"/", "/"})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// quick is a timing in which nothing takes long, and nothing is too short for a
// busy machine.
func quick() Timing {
	return Timing{
		Start: patience.Long, Poll: 10 * time.Millisecond, Check: 20 * time.Millisecond, Answer: patience.Long, Deaf: 2,
		Quit: patience.Long, RetryFirst: 10 * time.Millisecond, RetryLast: 50 * time.Millisecond,
	}
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, "pipe", name) }

// set makes a file in the pipe directory, and unset removes it.
func (r *rig) set(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) unset(name string) {
	r.t.Helper()
	if err := os.Remove(r.path(name)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(name string) string {
	text, _ := os.ReadFile(r.path(name)) // "" if it is not there
	return string(text)
}

func (r *rig) starts() int { return strings.Count(r.read("starts"), "start") }

// until waits for what the daemon does.
func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	if !patience.Within(patience.Long, done) {
		r.t.Fatalf("waited %v until %s; NotReady: %v, commands:\n%s", patience.Long, what, r.NotReady(uuidA), r.read("commands"))
	}
}

func (r *rig) ready(uuids ...string) func() bool {
	return func() bool {
		for _, uuid := range uuids {
			if r.NotReady(uuid) != nil {
				return false
			}
		}
		return true
	}
}

// notReady waits until the GPU is not ready for a reason.
func (r *rig) notReady(uuid, why string) {
	r.t.Helper()
	r.until("it is not ready: "+why, func() bool {
		err := r.NotReady(uuid)
		return err != nil && strings.Contains(err.Error(), why)
	})
}

// process is the process that a file names.
func (r *rig) process(name string) int {
	r.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(r.read(name)))
	if err != nil {
		r.t.Fatal(fmt.Errorf("no process in %s: %w", name, err))
	}
	return pid
}

// gone reports whether a process has ended, though perhaps nobody has reaped it.
func gone(pid int) bool {
	if unix.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}
