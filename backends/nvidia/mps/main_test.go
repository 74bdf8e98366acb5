package mps

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/nvidia/mps/mpstest"
	"github.com/accelmux/accelmux/test/patience"
	"github.com/accelmux/accelmux/test/sysroot"
)

// companionArgs has the test binary run a companion with these arguments, one a line.
const companionArgs = "MPS_TEST_COMPANION"

func TestMain(m *testing.M) {
	if args := os.Getenv(companionArgs); args != "" {
		os.Exit(Main(strings.Split(args, "\n")))
	}
	goleak.VerifyTestMain(m)
}

const uuidA, uuidB = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"

// rig is a companion with a simulated control daemon, and a backend's client of it.
type rig struct {
	*Client
	t      *testing.T
	dir    string
	timing Timing
	config *Config
	stop   func() // ends the companion, unless it has ended
	ended  chan error
}

// newRig returns a rig whose companion runs.
func newRig(t *testing.T, timing Timing) *rig {
	t.Helper()
	files := sysroot.NewFiles(t)
	mpstest.Install(files)
	r := &rig{t: t, dir: files.Root, timing: timing}
	r.config = r.settings(Settings{Replicas: 4})
	if err := os.MkdirAll(r.path(""), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Client = r.client()
	r.run()
	return r
}

// place is where the rig's daemon runs.
func (r *rig) place() place {
	return place{root: "/", dir: r.dir, program: filepath.Join(r.dir, "nvidia-cuda-mps-control")}
}

// run starts the companion.
func (r *rig) run() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.ended = make(chan error, 1)
	ended := r.ended
	go func() { ended <- serve(ctx, r.place(), r.timing, slog.New(slog.DiscardHandler)) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("the companion ended: %v", err)
		}
	})
	r.t.Cleanup(r.stop)
	r.until("the companion listens", func() bool { _, err := os.Stat(r.config.socket()); return err == nil })
}

// client returns another backend's client.
func (r *rig) client() *Client {
	c := NewClient(slog.New(slog.DiscardHandler), r.timing)
	r.t.Cleanup(c.Close)
	return c
}

// process starts a companion as a process of its own.
func (r *rig) process() *exec.Cmd {
	r.t.Helper()
	at := r.place()
	args := []string{"--dir=" + at.dir, "--program=" + at.program}
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), companionArgs+"="+strings.Join(args, "\n"))
	if err := process.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	return process
}

// settings returns s in the rig's directory, checked.
func (r *rig) settings(s Settings) *Config {
	r.t.Helper()
	s.Dir = r.dir
	c, err := New("mps", s, Root{"/", "/"})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// quick is a timing with short intervals and long limits.
func quick() Timing {
	return Timing{
		Start: patience.Long, Poll: 10 * time.Millisecond, Check: 20 * time.Millisecond, Answer: patience.Long, Silences: 2,
		Quit: patience.Long, RetryFirst: 10 * time.Millisecond, RetryLast: 50 * time.Millisecond,
		Abandoned: patience.Long, // a slow machine loses connections, too
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

// until waits for a condition of the daemon.
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

// pid returns the process ID in a file.
func (r *rig) pid(name string) int {
	r.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(r.read(name)))
	if err != nil {
		r.t.Fatal(fmt.Errorf("no process in %s: %w", name, err))
	}
	return pid
}

// gone reports whether a process has ended, reaped or not.
func gone(pid int) bool {
	if unix.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}
