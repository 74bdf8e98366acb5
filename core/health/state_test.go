package health

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/host"
)

func TestBootID(t *testing.T) {
	dir := t.TempDir()
	if _, err := BootID(dir); err == nil {
		t.Error("no procfs, no error")
	}
	name := filepath.Join(dir, "sys/kernel/random/boot_id")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{
		"f0f1c3a2-0000-4000-8000-0123456789ab\n": "f0f1c3a2-0000-4000-8000-0123456789ab",
		"":                                       "", "\n": "", "not a UUID": "", strings.Repeat("a", 65): "",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := BootID(dir); got != want || (err == nil) != (want != "") {
			t.Errorf("BootID of %q is %q, %v", content, got, err)
		}
	}
}

// Verifies when the file is written, and that nothing else is in its directory.
func TestFileIsWrittenOnlyOnChange(t *testing.T) {
	r := newRig(t, "a", "b")
	dir := filepath.Dir(r.path)
	writes := 0
	real := r.judge.file.write
	r.judge.file.write = func(path, magic string, payload []byte) error {
		writes++
		return real(path, magic, payload)
	}
	expect := func(n int, when string) {
		t.Helper()
		r.judgeNow()
		if writes != n {
			t.Errorf("%d writes %s, want %d", writes, when, n)
		}
		writes = 0
	}
	r.report()
	expect(0, "of nothing")
	if names := dirNames(t, dir); !slices.Equal(names, []string{"health.json.reserve"}) {
		t.Errorf("files %v while nothing is to be remembered", names)
	}
	r.say("a", faulty("x", reset))
	expect(1, "of a fault")
	r.say("b", unknown())
	expect(0, "of what is no fault")
	message := faulty("x", reset)
	message.Message = "another message"
	r.say("a", message)
	expect(0, "of another message")
	r.wait(time.Hour)
	expect(0, "of time")
	r.say("a", recovered())
	expect(1, "of evidence")
	r.wait(testDelay)
	expect(1, "of the end of a fault")
	if names := dirNames(t, dir); !slices.Equal(names, []string{"health.json", "health.json.reserve"}) {
		t.Errorf("files are %v", names)
	}
	info, err := os.Stat(r.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	if notes := r.judge.Notes(); len(notes) != 0 {
		t.Errorf("notes: %v", notes)
	}
}

// Verifies that faults that come while the disk is full are stored, as long as nobody takes
// the reserved room, and that a restart then knows them.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("test", dir, "tmpfs", 0, "size=512k"); err != nil {
		host.Lacks(t, "no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	r := newRig(t, "a", "b")
	r.path = filepath.Join(dir, "health.json")
	r.restart()
	r.say("a", faulty("x", reset))
	r.judgeNow()
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	if err := filler.Close(); err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"y", "z"} {
		r.say("b", faulty(code, reboot))
		r.judgeNow()
		if notes := r.judge.Notes(); len(notes) != 0 {
			t.Fatalf("notes after fault %s: %v", code, notes)
		}
	}
	for _, d := range r.devices {
		d.Health = healthy()
	}
	r.restart()
	r.want("a", "x:reset")
	r.want("b", "y:reboot z:reboot")
}

// Verifies that a damaged file is moved aside, that Notes has the problem, and that faults are
// stored again.
func TestUnusableFile(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		want    string
	}{
		"damaged":        {stateMagic + " sha256:00\n{}", "checksum"},
		"malformed JSON": {seal("{"), "malformed"},
		"wrong types":    {seal(`{"devices":7}`), "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "a")
			if err := os.WriteFile(r.path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			r.open()
			notes := r.judge.Notes()
			if len(notes) != 1 || !strings.Contains(notes[0], tc.want) || !strings.Contains(notes[0], ".corrupt") {
				t.Errorf("notes are %q, want %q", notes, tc.want)
			}
			if aside, err := os.ReadFile(r.path + ".corrupt"); err != nil || string(aside) != tc.content {
				t.Errorf("moved aside: %q, %v", aside, err)
			}
			r.say("a", faulty("y", reset))
			r.want("a", "y:reset")
			r.open()
			r.want("a", "y:reset")
			if len(r.judge.Notes()) != 0 {
				t.Errorf("notes are %q after the file is good again", r.judge.Notes())
			}
		})
	}
}

func TestLeftoversAreSwept(t *testing.T) {
	r := newRig(t)
	dir := filepath.Dir(r.path)
	for _, name := range []string{".health.json.123.tmp", ".other.json.1.tmp", "health.json.1.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.open()
	if got, want := dirNames(t, dir), []string{".other.json.1.tmp", "health.json.1.tmp", "health.json.reserve"}; !slices.Equal(got, want) {
		t.Errorf("files are %v, want %v", got, want)
	}
}

// Verifies that fields and words of a newer version are read.
func TestNewerFields(t *testing.T) {
	r := newRig(t, "a")
	content := seal(`{"bootID":"b00t-1","mood":"good","devices":[
		{"backend":"mock","id":"a","colour":3,"faults":[
			{"code":"x","recovery":"exorcism","since":"2030-01-01T00:00:00Z","wave":[1]},
			{"code":"y","recovery":"self","since":"2030-01-01T00:00:00Z"},
			{"code":"y","recovery":"reset"}, {"code":""}]},
		{"backend":"mock","id":"a","faults":[{"code":"z","recovery":"reset"}]},
		{"backend":"","id":"b","faults":[{"code":"z","recovery":"reset"}]},
		{"backend":"mock","id":"c","faults":null}]}`)
	if err := os.WriteFile(r.path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	r.open()
	if len(r.judge.Notes()) != 0 {
		t.Errorf("notes: %v", r.judge.Notes())
	}
	v := r.want("a", "x:replacement y:self")
	if len(v.faults) != 1 {
		t.Errorf("faults are %+v", v.faults)
	}
}

// Verifies that on a full disk the verdicts hold, that Notes has the problem, that the write
// is tried again with growing pauses, and that all is written once there is room.
func TestFailedWrite(t *testing.T) {
	r := newRig(t, "a")
	real, attempts := r.judge.file.write, 0
	r.judge.file.write = func(path, _ string, _ []byte) error {
		attempts++
		return fmt.Errorf("write %s: %w", path, syscall.ENOSPC)
	}
	r.say("a", faulty("x", reset))
	r.want("a", "x:reset")
	notes := r.judge.Notes()
	if len(notes) != 1 || !strings.Contains(notes[0], "no space left on device") {
		t.Errorf("notes are %q", notes)
	}
	last := time.Duration(0)
	for i := range 10 {
		wait := r.last.Next.Sub(r.now)
		if wait < last || wait < minRetry || wait > maxRetry+maxRetry/2 {
			t.Errorf("the next attempt is after %v, the one before after %v", wait, last)
		}
		last = min(wait, maxRetry)
		r.wait(wait - 1)
		before := attempts
		r.say("a", faulty([]string{"x", "y"}[i%2], reset))
		if r.judgeNow(); attempts != before {
			t.Errorf("attempt %d came too early", attempts)
		}
		r.wait(1)
		if r.judgeNow(); attempts != before+1 {
			t.Errorf("no attempt at View.Next")
		}
	}
	if err := r.judge.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Close: %v", err)
	}
	r.judge.file.write = real
	if err := r.judge.Close(); err != nil || len(r.judge.Notes()) != 0 {
		t.Errorf("with room again: %v, notes %q", err, r.judge.Notes())
	}
	want := codes(r.last, "a")
	r.open()
	r.want("a", want)
}

// Verifies that faults stick also while their file cannot exist.
func TestImpossibleDirectory(t *testing.T) {
	r := newRig(t, "a")
	file := filepath.Join(filepath.Dir(r.path), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.path = filepath.Join(file, "health.json")
	r.open()
	r.say("a", faulty("x", reset))
	r.want("a", "x:reset")
	if notes := r.judge.Notes(); len(notes) < 2 || !strings.Contains(strings.Join(notes, "\n"), "not a directory") {
		t.Errorf("notes are %q", notes)
	}
}

// Verifies that the reserve is a file of its own: what is in its place is neither waited for nor written to.
func TestReserveIsItsOwnFile(t *testing.T) {
	for name, plant := range map[string]func(victim, at string) error{
		"hard link": os.Link,
		"link":      os.Symlink,
		"pipe":      func(_, at string) error { return syscall.Mkfifo(at, 0o600) },
	} {
		dir := t.TempDir()
		f := &stateFile{path: filepath.Join(dir, "health"), log: slog.New(slog.DiscardHandler)}
		victim, at := filepath.Join(dir, "victim"), f.path+reserveSuffix
		if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), plant(victim, at)); err != nil {
			t.Fatal(err)
		}
		f.reserve(0)
		if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
			t.Errorf("%s: the victim has %d bytes, %v", name, len(text), err)
		}
		if info, err := os.Lstat(at); err != nil || !info.Mode().IsRegular() || info.Size() < minReserve {
			t.Errorf("%s: the reserve is %v, %v", name, info, err)
		}
	}
}
