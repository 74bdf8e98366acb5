package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/wake"
	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/patience"
)

// machine is a directory with what a process is given, and what appears there.
type machine struct {
	t   *testing.T
	dir string
	// appeared receives the text of the watch.
	appeared  chan string
	unwatched chan string
	// expansions counts how often the patterns were expanded.
	expansions atomic.Int64
	markers    int
}

// watchMachine watches for what appears in a machine, for a process that has what there is at first.
func watchMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), appeared: make(chan string, 1), unwatched: make(chan string, 1)}
	m.write("dev/acme0", "devfs/caps/cap1", "run/own/file", "etc/ld.so.cache", "target", "aside/dev/node")
	must(t, os.MkdirAll(m.dir+"/root/mounted", 0o755))
	must(t, os.Symlink("root", m.dir+"/link"))
	paths := Paths{Devfs: m.dir + "/devfs", Procfs: m.dir + "/proc"}
	needs := paths.at(m.needs()).appearing(paths)
	a := appearances{needs: needs, had: needs.existing(needs.expand()), settle: 200 * time.Millisecond, expand: func() map[string]found {
		m.expansions.Add(1)
		return needs.expand()
	}}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { end(); <-done })
	go func() {
		defer close(done)
		e := openEvents()
		defer e.close()
		a.run(ctx, e, func(message Message) {
			if message.Unwatched != "" {
				m.unwatched <- message.Unwatched
				return
			}
			m.appeared <- message.Appeared
		})
	}()
	patience.Until(t, "it watches", func() bool { return m.expansions.Load() > 1 })
	m.mark() // or the first readiness of the mounts, which is no change
	m.mark()
	return m
}

func (m *machine) needs() Needs {
	var n Needs
	for list, names := range map[*[]string][]string{
		&n.Open:  {"dev/acme*", "driver/dev/node", "link/acme*", "root/mounted/dev/node"},
		&n.Write: {"run/own/**", "run/daemon/**", "run/own/in*", "many/*/acme", "run/socket"},
		&n.Read:  {"etc/ld.so.*", "etc/acme/**"},
		&n.List:  {"dev/**", "opt/acme/**"},
	} {
		for _, name := range names {
			*list = append(*list, filepath.Join(m.dir, name))
		}
	}
	n.Read = append(n.Read, "/dev/caps/cap*", "/dev/more/**")
	n.Write = append(n.Write, "/proc/sys/acme/**")
	return n
}

// write makes files, with their directories.
func (m *machine) write(names ...string) {
	m.t.Helper()
	for _, name := range names {
		path := filepath.Join(m.dir, name)
		must(m.t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o600)))
	}
}

// mark waits until what happened before is handled: a link that leads nowhere is an event, but no file.
func (m *machine) mark() {
	m.t.Helper()
	before := m.expansions.Load()
	m.markers++
	must(m.t, os.Symlink("nowhere", fmt.Sprintf("%s/dev/acme-mark%d", m.dir, m.markers)))
	patience.Until(m.t, "the patterns are expanded again", func() bool { return m.expansions.Load() > before })
}

// want waits for what appeared.
func (m *machine) want(names ...string) {
	m.t.Helper()
	for i, name := range names {
		names[i] = filepath.Join(m.dir, name)
	}
	if got, want := next(m.t, m.appeared), strings.Join(names, " "); got != want {
		m.t.Errorf("appeared %q, want %q", got, want)
	}
}

// next receives a text.
func next(t *testing.T, from <-chan string) string {
	t.Helper()
	select {
	case text := <-from:
		return text
	case <-time.After(patience.Long):
		t.Fatal("nothing was reported")
		return ""
	}
}

// Verifies that what a process was given to open or to write to is noticed when it appears, however that happens.
func TestAppear(t *testing.T) {
	t.Parallel()
	remake := func(m *machine, name string) error {
		return errors.Join(os.Rename(filepath.Join(m.dir, name), filepath.Join(m.dir, "gone")), os.MkdirAll(filepath.Join(m.dir, name), 0o755))
	}
	for name, c := range map[string]struct {
		change func(m *machine) error
		want   []string
	}{
		"a node":                     {func(m *machine) error { m.write("dev/acme1"); return nil }, []string{"dev/acme1"}},
		"a node of read":             {func(m *machine) error { m.write("devfs/caps/cap2"); return nil }, []string{"devfs/caps/cap2"}},
		"a directory of nodes":       {func(m *machine) error { m.write("devfs/more/node"); return nil }, []string{"devfs/more"}},
		"a renamed node":             {func(m *machine) error { return os.Rename(m.dir+"/target", m.dir+"/dev/acme1") }, []string{"dev/acme1"}},
		"a link":                     {func(m *machine) error { return os.Symlink("../target", m.dir+"/dev/acme1") }, []string{"dev/acme1"}},
		"behind a link":              {func(m *machine) error { m.write("root/acme1"); return nil }, []string{"link/acme1"}},
		"the same node again":        {func(m *machine) error { err := os.Remove(m.dir + "/dev/acme0"); m.write("dev/acme0"); return err }, []string{"dev/acme0"}},
		"a directory's parents":      {func(m *machine) error { m.write("driver/dev/node"); return nil }, []string{"driver/dev/node"}},
		"a renamed parent":           {func(m *machine) error { return os.Rename(m.dir+"/aside", m.dir+"/driver") }, []string{"driver/dev/node"}},
		"a directory to write to":    {func(m *machine) error { return os.Mkdir(m.dir+"/run/daemon", 0o755) }, []string{"run/daemon"}},
		"that directory again":       {func(m *machine) error { return remake(m, "run/own") }, []string{"run/own"}},
		"a file to write to":         {func(m *machine) error { m.write("run/socket"); return nil }, []string{"run/socket"}},
		"in a directory that is new": {func(m *machine) error { err := remake(m, "dev"); m.write("dev/acme1"); return err }, []string{"dev/acme1"}},
		"in one of many directories": {func(m *machine) error { m.write("many/a/other", "many/b/acme"); return nil }, []string{"many/b/acme"}},
		"several, one after another": {func(m *machine) error { m.write("dev/acme1", "dev/acme2", "dev/other"); return nil }, []string{"dev/acme1", "dev/acme2"}},
		"its directory twice, a node": {func(m *machine) error {
			err := errors.Join(remake(m, "dev"), os.RemoveAll(m.dir+"/dev"))
			m.write("dev/acme0")
			return err
		}, []string{"dev/acme0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := watchMachine(t)
			must(t, c.change(m))
			m.want(c.want...)
		})
	}
}

// Verifies that a mount is noticed: the container of a driver mounts its root when the driver is loaded.
func TestMountAppears(t *testing.T) {
	m := watchMachine(t)
	at := m.dir + "/root/mounted"
	if err := unix.Mount(m.dir+"/aside", at, "", unix.MS_BIND, ""); errors.Is(err, unix.EPERM) {
		host.Lacks(t, "mount is not allowed here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(at, 0)) })
	m.want("root/mounted/dev/node")
}

// Verifies that nothing else is reported: what vanishes, what has another name, what is in a directory that the process has as
// a whole, and files that it only reads or lists, such as those that ldconfig makes again.
func TestNothingAppears(t *testing.T) {
	t.Parallel()
	m := watchMachine(t)
	must(t, os.Remove(m.dir+"/dev/acme0"))
	m.write("dev/other", "dev/below/acme1", "run/own/in1", "etc/acme/file", "etc/ld.so.conf", "opt/acme/file", "proc/sys/acme/file")
	ldconfig := exec.CommandContext(t.Context(), "ldconfig", "-X", "-C", m.dir+"/etc/ld.so.cache", "-f", "/dev/null")
	if before, err := os.Stat(m.dir + "/etc/ld.so.cache"); err != nil {
		t.Fatal(err)
	} else if out, err := ldconfig.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		host.Lacks(t, "there is no ldconfig")
	} else if after, again := os.Stat(m.dir + "/etc/ld.so.cache"); err != nil || again != nil || os.SameFile(before, after) {
		t.Fatalf("ldconfig did not make its cache again: %s, %v, %v", out, err, again)
	}
	m.mark()
	m.write("dev/acme9")
	m.want("dev/acme9")
}

// Verifies that names that no pattern looks for cost nothing, however many there are, and that what appears in a burst is
// reported once.
func TestBurst(t *testing.T) {
	t.Parallel()
	m := watchMachine(t)
	before := m.expansions.Load()
	for i := range 1000 {
		m.write(fmt.Sprintf("dev/other%d", i))
	}
	m.mark()
	if n := m.expansions.Load() - before; n > 50 { // mounts of other programs count
		t.Errorf("%d expansions for 1,000 files that no pattern looks for", n)
	}
	for i := range 1000 {
		m.write(fmt.Sprintf("dev/acme%d", i))
	}
	if got := next(t, m.appeared); !strings.HasPrefix(got, m.dir+"/dev/acme") {
		t.Errorf("appeared %q", got)
	}
}

// Verifies that a device that the kernel adds to sysfs, which has no events of inotify, is noticed.
func TestUevent(t *testing.T) {
	const file = "/sys/devices/virtual/mem/null/uevent"
	if err := os.WriteFile(file, []byte("add"), 0o600); err != nil {
		host.Lacks(t, "the kernel sends no event of a device: %v", err)
	}
	needs := Needs{Write: []string{"/sys/devices/virtual/mem/acme*/**"}}
	expansions := atomic.Int64{}
	a := appearances{needs: needs, settle: time.Millisecond, expand: func() map[string]found {
		expansions.Add(1)
		return needs.expand()
	}}
	ctx, end := context.WithCancel(t.Context())
	e, done := &events{changed: make(chan struct{}, 1)}, make(chan struct{}) // nothing else wakes it
	go func() { defer close(done); a.run(ctx, e, func(m Message) { t.Errorf("told %+v", m) }) }()
	patience.Until(t, "it listens", func() bool { return expansions.Load() == 2 })
	must(t, os.WriteFile(file, []byte("add"), 0o600))
	patience.Until(t, "the patterns are expanded again", func() bool { return expansions.Load() == 3 })
	end()
	<-done
	e.close()
	for message, want := range map[string]bool{"add@/a\x00": true, "bind@/a\x00": true, "remove@/a\x00": false, "change@/a\x00": false, "": false} {
		if isArrival([]byte(message)) != want {
			t.Errorf("%q: %v", message, !want)
		}
	}
}

// Verifies that a queue that overflowed counts as a file that may have appeared.
func TestOverflow(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	must(t, err)
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || most > 1<<16 {
		host.Lacks(t, "a queue for at most 65,536 events: %d, %v", most, err)
	}
	dir := t.TempDir()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	queue := os.NewFile(uintptr(fd), "queue")
	defer func() { _ = queue.Close() }()
	must(t, queue.SetReadDeadline(time.Now().Add(patience.Long)))
	e := &events{inotify: source{fd, queue}, names: map[int32][]string{}}
	e.add(dir, []string{"acme*"})
	for i := range most/2 + 2 { // two events each
		a, b := filepath.Join(dir, fmt.Sprintf("a%d", i%2)), filepath.Join(dir, fmt.Sprintf("b%d", i%2))
		must(t, errors.Join(os.WriteFile(a, nil, 0o600), os.Rename(a, b)))
		must(t, os.Remove(b))
	}
	buffer, named := make([]byte, 64<<10), false
	for !named {
		n, err := queue.Read(buffer)
		must(t, err)
		named = e.isNamed(buffer[:n])
	}
}

// Verifies that a process whose patterns lead to too many directories is told why they are polled, and that files are found
// then, too.
func TestTooManyDirectories(t *testing.T) {
	t.Parallel()
	m := watchMachine(t)
	for i := range maxWatches + 1 {
		must(t, os.MkdirAll(fmt.Sprintf("%s/many/%d", m.dir, i), 0o755))
	}
	if why := next(t, m.unwatched); why != "more than 1024 directories must be watched" {
		t.Errorf("unwatched: %s", why)
	}
	for i := range maxWatches + 1 { // some are watched, and some are not
		must(t, os.WriteFile(fmt.Sprintf("%s/many/%d/acme", m.dir, i), nil, 0o600))
	}
	if got := next(t, m.appeared); !strings.Contains(got, "/acme") {
		t.Errorf("appeared %q", got)
	}
}

// Verifies that a watch does nothing until there is an event, and at most every ten seconds where the kernel has none.
func TestIdle(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{"with events": {nil, 1}, "without": {unix.EMFILE, 1 + int(24*time.Hour/(10*time.Second)) - 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				expansions, told := 0, 0
				a := appearances{settle: time.Second, began: time.Now(), expand: func() map[string]found { expansions++; return nil }}
				go a.run(ctx, &events{changed: make(chan struct{}), err: c.err}, func(Message) { told++ })
				<-time.After(24 * time.Hour)
				synctest.Wait()
				if expansions != c.want || told > 0 != (c.err != nil) {
					t.Errorf("%d expansions, want %d; told %d times", expansions, c.want, told)
				}
				end()
				synctest.Wait()
			})
		})
	}
}

// Verifies that a watch waits for a moment without events, but no longer than ten times that, and longer while the process is
// young.
func TestQuiet(t *testing.T) {
	for name, c := range map[string]struct {
		age, want time.Duration
		every     time.Duration // between events; 0 for none
	}{
		"one event":       {time.Hour, time.Second, 0},
		"never quiet":     {time.Hour, 10 * time.Second, 900 * time.Millisecond},
		"a young process": {2 * time.Second, 8 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				changed, a, began := make(chan struct{}, 1), appearances{settle: time.Second, began: time.Now().Add(-c.age)}, time.Now()
				if c.every > 0 {
					go func() {
						for tick := time.Tick(c.every); ; wake.Send(changed) {
							select {
							case <-tick:
							case <-ctx.Done():
								return
							}
						}
					}()
				}
				if ok := a.quiet(ctx, changed); !ok || time.Since(began) != c.want {
					t.Errorf("%v after %v, want %v", ok, time.Since(began), c.want)
				}
				end()
				if a.quiet(ctx, nil) {
					t.Error("it is quiet after the end")
				}
			})
		})
	}
}
