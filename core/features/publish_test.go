package features_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/features"
)

const (
	countOf = "mock.accelmux.io/gpu.count"
	modelOf = "mock.accelmux.io/gpu.model"
	otherOf = "other.accelmux.io/fpga.count"
)

// inBubble runs a publisher in a bubble of time, with what it logs.
func inBubble(t *testing.T, target features.Target, test func(t *testing.T, p *features.Publisher, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := &bytes.Buffer{}
		p := features.New(features.Options{Target: target, Log: slog.New(slog.NewTextHandler(log, nil))})
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
// renewed at half time and no sooner, changed when the features do, made anew when
// somebody removed it, and left when the publisher ends.
func TestFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "features.d")
	inBubble(t, features.NewFile(dir), func(t *testing.T, p *features.Publisher, log *bytes.Buffer) {
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
			t.Error("written anew though nothing changed")
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
		if state.Target != "file "+filepath.Join(dir, "accelmux") || state.Published[countOf] != "7" || len(state.Problems) > 0 || state.At.IsZero() {
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

// Verifies that an agent which starts anew keeps what the file says of backends that
// have yet to report, unless that has expired, and takes away what is no more.
func TestFileOfEarlierRun(t *testing.T) {
	dir := t.TempDir()
	write := func(expiry time.Time) {
		text := "# +expiry-time=" + expiry.Format(time.RFC3339) + "\n" + countOf + "=8\n" + otherOf + "=2\ngone.accelmux.io/x=1\nnonsense\n"
		if err := os.WriteFile(filepath.Join(dir, "accelmux"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inBubble(t, features.NewFile(dir), func(t *testing.T, p *features.Publisher, _ *bytes.Buffer) {
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

// Verifies that a disk which cannot be written to is told, tried again with growing
// pauses, and forgotten once it can.
func TestFullDisk(t *testing.T) {
	var mu sync.Mutex
	full, tries := true, 0
	file := features.NewFile(t.TempDir())
	file.Disk = checkpoint.Writer{Before: func(op checkpoint.Op, _ string) error {
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
	inBubble(t, file, func(t *testing.T, p *features.Publisher, log *bytes.Buffer) {
		p.Publish(set(countOf, "8"))
		after(time.Hour)
		if tries < 10 || tries > 25 {
			t.Errorf("%d tries in an hour", tries)
		}
		if state, _ := p.State(); len(state.Problems) != 1 || !strings.Contains(state.Problems[0], "no space left on device") || state.Published != nil {
			t.Errorf("state %+v", state)
		}
		if n := strings.Count(log.String(), "no space left"); n != 1 {
			t.Errorf("%d lines in the log, want one", n)
		}
		mu.Lock()
		full = false
		mu.Unlock()
		after(10 * time.Minute)
		if state, _ := p.State(); len(state.Problems) != 0 || state.Published[countOf] != "8" {
			t.Errorf("state %+v", state)
		}
	})
}

// node is an API server in memory.
type node struct {
	mu           sync.Mutex
	labels       map[string]string
	err          error
	hangs        bool // GetNode answers no more
	gets, writes int
	at           []time.Time
}

func (n *node) GetNode(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	if n.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gets++
	if n.err != nil {
		return nil, n.err
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", Labels: maps.Clone(n.labels)}}, ctx.Err()
}

func (n *node) ApplyNodeLabels(_ context.Context, _ string, uid types.UID, labels map[string]string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.writes++; n.err != nil || uid != "uid" {
		return errors.Join(n.err, errors.New(string(uid)))
	}
	n.at = append(n.at, time.Now())
	n.labels = maps.Clone(labels)
	return nil
}

func (n *node) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

// Verifies that labels cost requests only when something changed, and that a hundred
// changes in a row are a few writes, of which the last has the newest.
func TestLabelsCostLittle(t *testing.T) {
	n := &node{}
	inBubble(t, features.NewLabels(n, "node-1"), func(t *testing.T, p *features.Publisher, _ *bytes.Buffer) {
		p.Publish(set(countOf, "8"))
		after(24 * time.Hour)
		if n.gets != 1 || n.writes != 1 {
			t.Errorf("%d looks and %d writes in a day, want one each", n.gets, n.writes)
		}
		p.Publish(set(countOf, "8"))
		p.Seen(map[string]string{countOf: "8", "other": "label"})
		after(time.Hour)
		if n.gets != 1 {
			t.Error("a request though nothing changed")
		}
		// News from before the write, and then of the write: nothing to look at.
		p.Publish(set(countOf, "9"))
		after(0)
		p.Seen(map[string]string{countOf: "8"})
		after(time.Second)
		p.Seen(map[string]string{countOf: "9"})
		after(time.Minute)
		if n.gets != 2 || n.writes != 2 {
			t.Errorf("%d looks and %d writes, want two each", n.gets, n.writes)
		}
		for i := range 100 {
			p.Publish(set(countOf, []string{"6", "7"}[i%2]))
			after(time.Second)
		}
		after(time.Minute)
		if got := n.writes - 2; got < 2 || got > 11 || n.labels[countOf] != "7" {
			t.Errorf("%d writes, at last %v", got, n.labels)
		}
		for i := 1; i < len(n.at); i++ {
			if gap := n.at[i].Sub(n.at[i-1]); gap < 10*time.Second {
				t.Errorf("two writes within %v", gap)
			}
		}
	})
}

// Verifies what the operator reads of an API server that forbids, is away or has no
// such Node, that it is asked ever more rarely, and that it is forgotten after that.
func TestLabelsTrouble(t *testing.T) {
	resource := schema.GroupResource{Resource: "nodes"}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"forbidden":    {apierrors.NewForbidden(resource, "node-1", errors.New("no rights")), "needs the verbs get and patch on nodes"},
		"unauthorized": {apierrors.NewUnauthorized("expired"), "does not accept this agent's credentials"},
		"no such Node": {apierrors.NewNotFound(resource, "node-1"), "the cluster has no such Node"},
		"away":         {errors.New("connection refused"), "labels of Node node-1: connection refused"},
		"silent":       {context.DeadlineExceeded, "the API server does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{err: tc.err}
			inBubble(t, features.NewLabels(n, "node-1"), func(t *testing.T, p *features.Publisher, _ *bytes.Buffer) {
				p.Publish(set(countOf, "8"))
				after(time.Hour)
				if n.gets < 10 || n.gets > 25 {
					t.Errorf("%d tries in an hour", n.gets)
				}
				if state, _ := p.State(); len(state.Problems) != 1 || !strings.Contains(state.Problems[0], tc.want) {
					t.Errorf("problems %q, want %q", state.Problems, tc.want)
				}
				n.fail(nil)
				after(8 * time.Minute)
				if state, _ := p.State(); len(state.Problems) != 0 || n.labels[countOf] != "8" {
					t.Errorf("state %+v, labels %v", state, n.labels)
				}
			})
		})
	}
}

// Verifies that a request which is never answered ends at its deadline and is told,
// and that one which the end of the agent cuts short is not.
func TestHangingServer(t *testing.T) {
	n := &node{hangs: true}
	var log *bytes.Buffer
	inBubble(t, features.NewLabels(n, "node-1"), func(t *testing.T, p *features.Publisher, l *bytes.Buffer) {
		log = l
		p.Publish(set(countOf, "8"))
		after(12 * time.Second)
		if state, _ := p.State(); len(state.Problems) > 0 {
			t.Errorf("problems %q before the deadline", state.Problems)
		}
	})
	if strings.Contains(log.String(), "WARN") {
		t.Errorf("log:\n%s", log)
	}
	inBubble(t, features.NewLabels(n, "node-1"), func(t *testing.T, p *features.Publisher, _ *bytes.Buffer) {
		p.Publish(set(countOf, "8"))
		after(26 * time.Second)
		if state, _ := p.State(); len(state.Problems) != 1 || !strings.Contains(state.Problems[0], "the API server does not answer") {
			t.Errorf("problems %q", state.Problems)
		}
	})
}
