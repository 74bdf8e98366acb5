package events_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an API server in memory.
type server struct {
	mu      sync.Mutex
	err     error // of every call
	calls   int
	created []corev1.Event
	patched int
}

func (s *server) CreateEvent(_ context.Context, event *corev1.Event) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.err != nil {
		return nil, s.err
	}
	s.created = append(s.created, *event)
	return event, nil
}

func (s *server) PatchEvent(context.Context, string, string, []byte) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.err != nil {
		return nil, s.err
	}
	s.patched++
	return &corev1.Event{}, nil
}

// count returns how many Events there are, and how many calls there were.
func (s *server) count() (created, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.created), s.calls
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// atOnce lets the first Event wait for nothing.
var atOnce = events.Timing{Spread: 1}

// inBubble runs a recorder in a synctest bubble, with its log.
func inBubble(t *testing.T, test func(t *testing.T, s *server, r *events.Recorder, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, log := &server{}, &bytes.Buffer{}
		r := events.New(events.Options{Client: s, Node: "node-1", Log: slog.New(slog.NewTextHandler(log, nil)), Timing: atOnce})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		test(t, s, r, log)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Verifies that the first Events of many agents that start at once are spread over
// 10 s, and that what comes later is written at once.
func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents = 200
		s := &server{}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var all []*events.Recorder
		for range agents {
			r := events.New(events.Options{Client: s, Node: "node-1"})
			r.Record(events.ProfileApplied, "first")
			running.Go(func() { _ = r.Run(ctx) })
			all = append(all, r)
		}
		before, most := 0, 0
		for range 10 {
			<-time.After(time.Second)
			synctest.Wait()
			now, _ := s.count()
			before, most = now, max(most, now-before)
		}
		if before != agents || most > agents/4 {
			t.Errorf("%d Events of %d in 10 s, %d within a second", before, agents, most)
		}
		for _, r := range all {
			r.Record(events.ProfileApplied, "second")
		}
		synctest.Wait()
		if got, _ := s.count(); got != 2*agents {
			t.Errorf("%d Events, want the second of each at once", got-agents)
		}
		cancel()
		running.Wait()
	})
}

// Verifies what reaches an API server over a real connection: the object, the
// reason, the type and the message, and that a repetition is counted up.
func TestAgainstServer(t *testing.T) {
	server := clustertest.New(t, "node-1", nil)
	r := events.New(events.Options{Client: server.Client(t), Node: "node-1", Timing: atOnce})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.Record(events.ProfileApplied, "profile %s is applied", "gpu")
	r.Record(events.DeviceUnhealthy, "device %s failed", "d-1")
	r.Record(events.ProfileApplied, "profile %s is applied", "gpu")
	if !patience.Within(patience.Long, func() bool { return server.Requests("patch") > 0 && server.Events()[0].Count > 1 }) {
		t.Fatalf("got %+v", server.Events())
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	all := server.Events()
	if len(all) != 2 {
		t.Fatalf("%d Events, want 2", len(all))
	}
	got := all[0]
	if got.Reason != "ProfileApplied" || got.Type != "Normal" || got.Message != "profile gpu is applied" || got.Count != 2 ||
		got.InvolvedObject.Kind != "Node" || got.InvolvedObject.Name != "node-1" || got.Source.Component != "accelmux" || got.FirstTimestamp.IsZero() {
		t.Errorf("got %+v", got)
	}
	if all[1].Type != "Warning" {
		t.Errorf("a failure is of the type %s", all[1].Type)
	}
}

// Verifies that an outage of the API server, or a missing right, is a problem that
// names the reason, costs few requests, is logged once at its begin and its end, and
// loses no Event, although the callers did not wait.
func TestOutage(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"away":      {errors.New("connection refused"), "Node node-1 cannot be written: connection refused"},
		"forbidden": {apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no rights")), "kubectl auth can-i create events --namespace=default"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *server, r *events.Recorder, log *bytes.Buffer) {
				s.fail(c.err)
				began := time.Now()
				for i := range 9 {
					r.Record(events.BackendFailed, "number %d", i)
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("recording took %v", took)
				}
				<-time.After(24 * time.Hour)
				synctest.Wait()
				if _, calls := s.count(); calls < 24*8 || calls > 24*12+10 {
					t.Errorf("%d requests within a day", calls)
				}
				if notes := r.Notes(); len(notes) != 1 || !strings.Contains(notes[0], c.want) {
					t.Errorf("notes %q", notes)
				}
				s.fail(nil)
				<-time.After(8 * time.Minute)
				synctest.Wait()
				if created, _ := s.count(); created != 9 || len(r.Notes()) != 0 {
					t.Errorf("%d Events written, notes %q", created, r.Notes())
				}
				if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "cannot write Events") || !strings.Contains(text, "written again") {
					t.Errorf("the log is\n%s", text)
				}
			})
		})
	}
}

// Verifies that an Event that the server refuses is dropped and does not hold up the
// next one.
func TestRefusedEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, r *events.Recorder, _ *bytes.Buffer) {
		s.fail(apierrors.NewBadRequest("the Event is wrong"))
		r.Record(events.BackendFailed, "one")
		synctest.Wait()
		s.fail(nil)
		r.Record(events.BackendFailed, "two")
		synctest.Wait()
		if len(s.created) != 1 || s.created[0].Message != "two" || len(r.Notes()) != 0 {
			t.Errorf("created %v, notes %q", s.created, r.Notes())
		}
	})
}

// Verifies that a reason that comes without end is combined and limited, and leaves
// the others their room.
func TestRate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, r *events.Recorder, _ *bytes.Buffer) {
		record := func(reason events.Reason, n int) {
			for i := range n {
				r.Record(reason, "number %d", i)
				synctest.Wait()
			}
		}
		record(events.DeviceUnhealthy, 60)
		record(events.ProfileRefused, 1)
		// Nine of them, the first that is combined with others, and the other reason.
		if created, calls := s.count(); created != 11 || calls != 26 || s.created[10].Reason != string(events.ProfileRefused) ||
			!strings.Contains(s.created[9].Message, "combined from similar events") {
			t.Errorf("%d Events of %d requests", created, calls)
		}
		<-time.After(3*time.Minute + time.Second)
		record(events.DeviceUnhealthy, 60)
		if _, calls := s.count(); calls != 29 {
			t.Errorf("%d requests three minutes later, want three more", calls)
		}
	})
}

// Verifies that Events recorded before Run are written by it, and that a long message
// is cut at a character.
func TestBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		r := events.New(events.Options{Client: s, Node: "node-1", Timing: atOnce})
		for shift := range 4 {
			r.Record(events.ProfileRefused, "%s%s", strings.Repeat("x", shift), strings.Repeat("é", 2000))
		}
		<-time.After(time.Hour)
		if created, _ := s.count(); created != 0 {
			t.Errorf("%d Events before Run", created)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		if created, _ := s.count(); created != 4 {
			t.Errorf("%d Events, want 4", created)
		}
		for _, e := range s.created {
			if len(e.Message) > 1024 || !utf8.ValidString(e.Message) || !strings.HasSuffix(e.Message, "é...") {
				t.Errorf("%d bytes, valid %v: %s", len(e.Message), utf8.ValidString(e.Message), e.Message[1000:])
			}
		}
	})
	var none *events.Recorder
	none.Record(events.ProfileApplied, "dropped")
	none.Close()
	if none.Notes() != nil {
		t.Error("a nil recorder has notes")
	}
}
