package profile_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/accelmux/accelmux/core/profile"
)

// nodes is an API server in memory, for tests in a bubble of time.
type nodes struct {
	mu     sync.Mutex
	labels map[string]string
	// mute makes it take requests and never answer; away refuses them; brief ends
	// each watch at once.
	mute, away, brief bool
	// delay refuses them with too much to do, for so many seconds.
	delay int
	// expired makes it forget what followed any version.
	expired    bool
	calls      []time.Time
	beginnings int
	running    []*watch.FakeWatcher
	lifetimes  []time.Duration
}

func (n *nodes) call(ctx context.Context) error {
	n.mu.Lock()
	n.calls = append(n.calls, time.Now())
	mute, away, delay := n.mute, n.away, n.delay
	n.mu.Unlock()
	if delay > 0 {
		return apierrors.NewTooManyRequests("come again later", delay)
	}
	if mute {
		<-ctx.Done()
		return ctx.Err()
	}
	if away {
		return errors.New("connection refused")
	}
	return nil
}

func (n *nodes) WatchNode(ctx context.Context, name, version string, lifetime time.Duration) (watch.Interface, error) {
	if err := n.call(ctx); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
	n.lifetimes = append(n.lifetimes, lifetime)
	if n.brief {
		w.Stop()
		return w, nil
	}
	if n.expired && version != "" {
		w.Error(&apierrors.NewResourceExpired("too old resource version").ErrStatus)
		return w, nil
	}
	n.running = append(n.running, w)
	if version == "" {
		n.beginnings++
		w.Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7", Labels: n.labels}})
	}
	time.AfterFunc(lifetime, w.Stop)
	return w, nil
}

// set changes what the server does, cuts all watches and forgets the calls.
func (n *nodes) set(change func(*nodes)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
	n.calls = nil
	for _, w := range n.running {
		w.Stop()
	}
	n.running = nil
}

func (n *nodes) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.calls)
}

// Verifies that an API server which is away for six hours is asked about once a
// minute, that the labels stay, and that it is found again within a minute,
// from where the watch was. The log has a line of each of the two states, not of
// each try.
func TestAwayForHours(t *testing.T) {
	for name, away := range map[string]func(*nodes){
		"refuses":  func(n *nodes) { n.away = true },
		"is mute":  func(n *nodes) { n.mute = true },
		"hangs up": func(n *nodes) { n.brief = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &nodes{labels: labels("gpu")}
				var log bytes.Buffer
				w, _ := start(t, profile.Options{
					Nodes: server, Node: nodeName, Path: filepath.Join(t.TempDir(), "selection"),
					Log: slog.New(slog.NewTextHandler(&log, nil)),
				})
				<-w.Changed()
				synctest.Wait()
				server.set(away)
				<-time.After(6 * time.Hour)
				// The pause is 30 s to 1 min, and a mute server costs 15 s more.
				if got := server.count(); got < 6*60*60/75-20 || got > 6*60*2+20 {
					t.Errorf("%d requests in six hours", got)
				}
				if notes := strings.Join(w.Notes(), ""); !strings.Contains(notes, "the labels last seen still count") {
					t.Errorf("notes %q", notes)
				}
				if w.Labels()["accelerator"] != "gpu" || len(w.Changed()) > 0 {
					t.Errorf("labels %v, changed %v", w.Labels(), len(w.Changed()) > 0)
				}
				server.set(func(n *nodes) { n.away, n.mute, n.brief = false, false, false })
				<-time.After(75 * time.Second)
				if notes := w.Notes(); len(notes) > 0 {
					t.Errorf("notes after it is back: %q", notes)
				}
				synctest.Wait()
				if lines := log.String(); strings.Count(lines, "\n") != 2 || !strings.Contains(lines, "watched again") {
					t.Errorf("the log is\n%s", lines)
				}
				server.mu.Lock()
				defer server.mu.Unlock()
				if server.beginnings != 1 {
					t.Errorf("%d watches from the beginning, want one", server.beginnings)
				}
			})
		})
	}
}

// Verifies that a server which is back after hours and has forgotten the version is
// asked from the beginning at once: the pauses of the hours before don't count.
func TestBackWithoutHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &nodes{labels: labels("gpu")}
		w, _ := start(t, profile.Options{Nodes: server, Node: nodeName, Path: filepath.Join(t.TempDir(), "selection")})
		<-w.Changed()
		server.set(func(n *nodes) { n.away = true })
		<-time.After(2 * time.Hour)
		server.set(func(n *nodes) { n.away, n.expired, n.labels = false, true, labels("fpga") })
		start := time.Now()
		select {
		case <-w.Changed():
		case <-time.After(time.Hour):
		}
		if took := time.Since(start); took > 61*time.Second || w.Labels()["accelerator"] != "fpga" {
			t.Errorf("labels %v after %v", w.Labels(), took)
		}
		synctest.Wait()
		if got := server.count(); got != 2 || len(w.Notes()) > 0 {
			t.Errorf("%d requests, notes %q; want the one that was too old, and one more", got, w.Notes())
		}
		// From the beginning again, with the same labels: that is no change.
		server.set(func(*nodes) {})
		<-time.After(3 * time.Minute) // longer than any pause, shorter than any watch
		synctest.Wait()
		if got := server.count(); got != 2 || len(w.Changed()) > 0 {
			t.Errorf("%d requests, changed %v; want two and no change", got, len(w.Changed()) > 0)
		}
	})
}

// Verifies that at rest there is nothing but the watch, made anew after 5 to 10
// minutes.
func TestAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &nodes{labels: labels("gpu")}
		w, _ := start(t, profile.Options{Nodes: server, Node: nodeName, Path: filepath.Join(t.TempDir(), "selection")})
		<-w.Changed()
		<-time.After(24 * time.Hour)
		synctest.Wait()
		server.mu.Lock()
		defer server.mu.Unlock()
		if server.beginnings != 1 || len(server.lifetimes) < 24*6 || len(server.lifetimes) > 24*12+1 {
			t.Errorf("%d watches from the beginning of %d in a day", server.beginnings, len(server.lifetimes))
		}
		// There is no moment without a watch after the first one began.
		unwatched := 24 * time.Hour
		for _, lifetime := range server.lifetimes {
			unwatched -= lifetime
			if lifetime < 5*time.Minute || lifetime > 10*time.Minute {
				t.Errorf("a watch of %v", lifetime)
			}
		}
		if unwatched > 0 {
			t.Errorf("%v of a day without a watch", unwatched)
		}
		if len(w.Notes()) > 0 || len(w.Changed()) > 0 {
			t.Errorf("notes %q, changed %v", w.Notes(), len(w.Changed()))
		}
	})
}
