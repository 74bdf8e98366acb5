package features_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/features"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	countOf = "mock.accelmux.io/gpu.count"
	modelOf = "mock.accelmux.io/gpu.model"
	otherOf = "other.accelmux.io/fpga.count"
)

// inBubble runs a publisher in a synctest bubble, with its log.
func inBubble(t *testing.T, opts features.Options, test func(t *testing.T, p *features.Publisher, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := &bytes.Buffer{}
		opts.Log = slog.New(slog.NewTextHandler(log, nil))
		p := features.New(opts)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		test(t, p, log)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// after lets time pass until nothing moves.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func set(pairs ...string) *features.Set {
	s := &features.Set{Values: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		s.Values[pairs[i]] = pairs[i+1]
	}
	return s
}

func pending(s *features.Set, domains ...string) *features.Set {
	s.Pending = domains
	return s
}

// lines are those of the feature file that are no comments, and the expiry.
func lines(t *testing.T, dir string) (text, expiry string, at time.Time) {
	t.Helper()
	path := filepath.Join(dir, "accelmux")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o644 {
		t.Errorf("the file is %v, want 0644", info.Mode())
	}
	var values []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if after, ok := strings.CutPrefix(line, "# +expiry-time="); ok {
			expiry = after
		} else if !strings.HasPrefix(line, "#") {
			values = append(values, line)
		}
	}
	at, err = time.Parse(time.RFC3339, expiry)
	if err != nil {
		t.Errorf("the time of expiry: %v", err)
	}
	return strings.Join(values, " "), expiry, at
}

// Verifies the file as Node Feature Discovery reads it, over its life: written once,
// renewed at half time and no sooner, changed when the features do, written again after it was
// removed, and left when the publisher ends.
func TestFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "features.d")
	inBubble(t, features.Options{Dir: dir}, func(t *testing.T, p *features.Publisher, log *bytes.Buffer) {
		after(time.Hour)
		if _, err := os.Stat(dir); err == nil {
			t.Error("something was written before there are features")
		}
		p.Publish(set(modelOf, "M1", countOf, "8"))
		after(0)
		text, first, at := lines(t, dir)
		if text != "mock.accelmux.io/gpu.count=8 mock.accelmux.io/gpu.model=M1" {
			t.Errorf("the file says %q", text)
		}
		if left := time.Until(at); left < 59*time.Minute || left > time.Hour {
			t.Errorf("it expires in %v", left)
		}
		p.Publish(set(modelOf, "M1", countOf, "8"))
		after(29 * time.Minute)
		if _, again, _ := lines(t, dir); again != first {
			t.Error("written again though nothing changed")
		}
		after(2 * time.Minute)
		if _, again, at := lines(t, dir); again == first || time.Until(at) < 58*time.Minute {
			t.Error("not renewed after half of its time")
		}
		p.Publish(set(countOf, "7"))
		after(10 * time.Second)
		if text, _, _ := lines(t, dir); text != countOf+"=7" {
			t.Errorf("the file says %q", text)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		after(time.Minute + 20*time.Second)
		if text, _, _ := lines(t, dir); text != countOf+"=7" {
			t.Errorf("the file says %q", text)
		}
		state, _ := p.State()
		if state.Path != filepath.Join(dir, "accelmux") || state.Published[countOf] != "7" || state.Problem != "" || state.At.IsZero() {
			t.Errorf("state %+v", state)
		}
		if n := strings.Count(log.String(), "features published"); n != 3 {
			t.Errorf("%d lines in the log, want 3:\n%s", n, log.String())
		}
	})
	if text, _, _ := lines(t, dir); text != countOf+"=7" {
		t.Errorf("after the end the file says %q", text)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("in the directory: %v %v", entries, err)
	}
}

// Verifies that a restarted agent keeps the features of backends that have yet to report,
// unless they have expired, and removes those that are gone, whatever their prefix.
func TestFileOfEarlierRun(t *testing.T) {
	dir := t.TempDir()
	write := func(expiry time.Time) {
		text := "# +expiry-time=" + expiry.Format(time.RFC3339) + "\n" + countOf + "=8\n" + otherOf + "=2\nexample.com/x=1\nnonsense\n"
		if err := os.WriteFile(filepath.Join(dir, "accelmux"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inBubble(t, features.Options{Dir: dir}, func(t *testing.T, p *features.Publisher, _ *bytes.Buffer) {
		write(time.Now().Add(20 * time.Minute))
		p.Publish(pending(set(countOf, "7"), "other.accelmux.io"))
		after(time.Minute)
		if text, _, _ := lines(t, dir); text != countOf+"=7 "+otherOf+"=2" {
			t.Errorf("the file says %q", text)
		}
		p.Publish(set(countOf, "7"))
		after(time.Minute)
		if text, _, _ := lines(t, dir); text != countOf+"=7" {
			t.Errorf("the file says %q", text)
		}
		write(time.Now().Add(-time.Minute))
		p.Publish(pending(set(countOf, "7"), "other.accelmux.io"))
		after(2 * time.Minute)
		if text, _, _ := lines(t, dir); text != countOf+"=7" {
			t.Errorf("the file says %q", text)
		}
	})
}

// Verifies that what a backend reports first is published at once, whatever was written before
// it, an empty file or the features of another backend, and that later changes are held back.
func TestFirstReport(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, features.Options{Dir: dir}, func(t *testing.T, p *features.Publisher, _ *bytes.Buffer) {
		want := func(text string) {
			t.Helper()
			if got, _, _ := lines(t, dir); got != text {
				t.Errorf("the file says %q, want %q", got, text)
			}
		}
		p.Publish(pending(set(), "mock.accelmux.io", "other.accelmux.io"))
		after(1600 * time.Millisecond)
		p.Publish(pending(set(), "other.accelmux.io")) // its driver is not loaded yet
		after(time.Second)
		p.Publish(pending(set(countOf, "8"), "other.accelmux.io"))
		after(0)
		want(countOf + "=8")
		after(time.Second)
		p.Publish(set(countOf, "8", otherOf, "2"))
		after(0)
		want(countOf + "=8 " + otherOf + "=2")
		p.Publish(set(countOf, "7", otherOf, "2"))
		after(9 * time.Second)
		want(countOf + "=8 " + otherOf + "=2")
		after(time.Second)
		want(countOf + "=7 " + otherOf + "=2")
	})
}

// Verifies that a disk which cannot be written to is a problem, logged once, that the
// write is tried again at every scan, and that the problem goes with it.
func TestFullDisk(t *testing.T) {
	var mu sync.Mutex
	full, tries := true, 0
	disk := checkpoint.Writer{Before: func(op checkpoint.Op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == checkpoint.OpCreate {
			tries++
		}
		if full && op == checkpoint.OpWrite {
			return errors.New("no space left on device")
		}
		return nil
	}}
	inBubble(t, features.Options{Dir: t.TempDir(), Disk: disk}, func(t *testing.T, p *features.Publisher, log *bytes.Buffer) {
		p.Publish(set(countOf, "8"))
		after(time.Hour)
		if tries < 30 || tries > 61 {
			t.Errorf("%d tries in an hour, want about one a minute", tries)
		}
		if state, _ := p.State(); !strings.Contains(state.Problem, "no space left on device") || state.Published != nil {
			t.Errorf("state %+v", state)
		}
		if n := strings.Count(log.String(), "no space left"); n != 1 {
			t.Errorf("%d lines in the log, want one", n)
		}
		mu.Lock()
		full = false
		mu.Unlock()
		after(2 * time.Minute)
		if state, _ := p.State(); state.Problem != "" || state.Published[countOf] != "8" {
			t.Errorf("state %+v", state)
		}
	})
}
