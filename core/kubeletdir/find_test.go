package kubeletdir

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// machine is a node: a procfs, and the directories of kubelets.
type machine struct {
	*testing.T
	dir, procfs string
}

func newMachine(t *testing.T) machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "k") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := machine{t, dir, filepath.Join(dir, "proc")}
	m.process(1, "/", "/sbin/init")
	m.write("proc/1/net/unix", "Num       RefCount Protocol Flags    Type St Inode Path\n")
	return m
}

func (m machine) path(name string) string { return filepath.Join(m.dir, name) }

func (m machine) write(name, text string) {
	m.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(m.path(name)), 0o755), os.WriteFile(m.path(name), []byte(text), 0o600)); err != nil {
		m.Fatal(err)
	}
}

// process adds a process with a root file system.
func (m machine) process(pid int, root string, args ...string) {
	m.Helper()
	m.write(fmt.Sprintf("proc/%d/cmdline", pid), strings.Join(args, "\x00")+"\x00")
	if err := os.Symlink(root, m.path(fmt.Sprintf("proc/%d/root", pid))); err != nil {
		m.Fatal(err)
	}
}

// listen has a kubelet answer in a root directory; with listed, the kernel lists its socket by the name under which
// kubelet makes it.
func (m machine) listen(root string, listed bool) (stop func()) {
	m.Helper()
	dir := m.path(root + "/pod-resources")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = listener.Close() })
	if listed {
		old, err := os.ReadFile(m.path("proc/1/net/unix"))
		if err != nil {
			m.Fatal(err)
		}
		m.write("proc/1/net/unix", string(old)+
			"0000000000000000: 00000002 00000000 00010000 0001 01 20731 /run/systemd/private\n"+
			"0000000000000000: 00000003 00000000 00000000 0001 03 20732\n"+
			"0000000000000000: 00000002 00000000 00010000 0001 01 20733 @abstract\n"+
			"0000000000000000: 00000002 00000000 00010000 0001 01 20734 "+filepath.Join(dir, "3141592653")+"\n")
	}
	return func() { _ = listener.Close() }
}

// Verifies which root directory is found: by the sockets that answer, and before there is one by the command line; never
// that of a kubelet in a container, and none of several.
func TestFind(t *testing.T) {
	kubelet := func(pid int, args ...string) func(machine) {
		return func(m machine) {
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "DIR", m.dir)
			}
			m.process(pid, "/", append([]string{"/usr/bin/kubelet"}, args...)...)
		}
	}
	answers := func(root string, listed bool) func(machine) { return func(m machine) { m.listen(root, listed) } }
	for name, c := range map[string]struct {
		node []func(machine)
		want string // below the machine's directory, or absolute
	}{
		"no kubelet":                       {},
		"the usual one":                    {[]func(machine){answers("usual", true)}, "usual"},
		"the usual one, and another":       {[]func(machine){answers("usual", true), answers("k0s", true)}, "usual"},
		"another, part of another program": {[]func(machine){answers("snap", true)}, "snap"},
		"another, in a place with spaces":  {[]func(machine){answers("a b", true)}, "a b"},
		"another, by its command line":     {[]func(machine){answers("k0s", false), kubelet(7, "--root-dir=DIR/k0s")}, "k0s"},
		"both show it":                     {[]func(machine){answers("k0s", true), kubelet(7, "--root-dir=DIR/k0s")}, "k0s"},
		"two answer":                       {[]func(machine){answers("k0s", true), answers("snap", true)}, ""},
		"one starts, another answers":      {[]func(machine){answers("snap", true), kubelet(7, "--root-dir=DIR/k0s")}, "snap"},
		"one starts":                       {[]func(machine){kubelet(7, "--v=2", "--root-dir", "DIR/k0s/", "--config=x")}, "k0s"},
		"one starts, without the flag":     {[]func(machine){kubelet(7, "--config=x")}, Default},
		"the last flag":                    {[]func(machine){kubelet(7, "--root-dir=/a", "--root_dir=DIR/k0s")}, "k0s"},
		"a flag without a value":           {[]func(machine){kubelet(7, "--root-dir")}, Default},
		"two start":                        {[]func(machine){kubelet(7, "--root-dir=/a"), kubelet(8, "--root-dir=/b")}, ""},
		"in a container": {[]func(machine){func(m machine) {
			m.process(7, m.dir, "/usr/bin/kubelet", "--root-dir=/a")
		}}, ""},
		"another program":     {[]func(machine){func(m machine) { m.process(7, "/", "/usr/bin/kubelet-watch", "--root-dir=/a") }}, ""},
		"ended, file is left": {[]func(machine){func(m machine) { m.listen("k0s", true)() }}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			for _, add := range c.node {
				add(m)
			}
			if c.want != "" && !filepath.IsAbs(c.want) {
				c.want = m.path(c.want)
			}
			if got := Find(t.Context(), m.procfs, m.path("usual")); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
	if got := Find(t.Context(), t.TempDir(), t.TempDir()); got != "" {
		t.Errorf("found %q without a procfs", got)
	}
}

// Verifies that an agent which starts before kubelet uses the usual directory, learns that kubelet has another one as soon as it
// runs, uses that one from its next start on, also before kubelet's, and stays with it while kubelet restarts.
func TestFollow(t *testing.T) {
	m := newMachine(t)
	synctest.Test(t, func(t *testing.T) {
		root := Root{Procfs: m.procfs, Usual: m.path("usual"), File: m.path("kubelet-root"), Log: slog.New(slog.DiscardHandler)}
		first := root.Dir(t.Context())
		if first != m.path("usual") {
			t.Errorf("before the first kubelet: %s", first)
		}
		ended := make(chan error, 1)
		go func() { ended <- root.Follow(t.Context(), first) }()
		time.Sleep(10 * poll) //nolint:forbidigo // the bubble's time
		if len(ended) > 0 {
			t.Fatalf("it ended without a kubelet: %v", <-ended)
		}
		stop := m.listen("k0s", true)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "kubelet's root directory is "+m.path("k0s")+", and this agent uses "+first) {
			t.Errorf("it ended with %v", err)
		}
		stop()
		second := root.Dir(t.Context())
		if second != m.path("k0s") {
			t.Errorf("before the second start of kubelet: %s", second)
		}
		go func() { ended <- root.Follow(t.Context(), second) }()
		for range 3 {
			time.Sleep(2 * calmPoll) //nolint:forbidigo // the bubble's time
			stop = m.listen("k0s", false)
			time.Sleep(2 * calmPoll) //nolint:forbidigo // the bubble's time
			stop()
		}
		if len(ended) > 0 {
			t.Errorf("it ended: %v", <-ended)
		}
		m.listen("usual", true)
		if err := <-ended; err == nil || root.Dir(t.Context()) != m.path("usual") {
			t.Errorf("a kubelet in the usual directory: %v", err)
		}
	})
}
