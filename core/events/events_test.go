package events_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/test/patience"
)

// sink is an API server in memory.
type sink struct {
	mu      sync.Mutex
	err     error // of every call
	calls   int
	created []corev1.Event
	patches []string
	gone    bool // it has forgotten what is patched
}

func (s *sink) CreateEvent(_ context.Context, event *corev1.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.err != nil {
		return s.err
	}
	s.created = append(s.created, *event)
	return nil
}

func (s *sink) PatchEvent(_ context.Context, _, name string, patch []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.calls++; {
	case s.err != nil:
		return s.err
	case s.gone:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, name)
	}
	s.patches = append(s.patches, string(patch))
	return nil
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.created)
}

// asked is how many calls there were.
func (s *sink) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *sink) written() []corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.created)
}

func (s *sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// atOnce lets the first Event wait for nothing.
var atOnce = events.Timing{Spread: 1}

// inBubble runs a recorder in a bubble of time, with what it logs.
func inBubble(t *testing.T, test func(t *testing.T, s *sink, r *events.Recorder, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, log := &sink{}, &bytes.Buffer{}
		r := events.New(events.Options{Sink: s, Node: "node-1", Log: slog.New(slog.NewTextHandler(log, nil)), Timing: atOnce})
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
		s := &sink{}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var all []*events.Recorder
		for range agents {
			r := events.New(events.Options{Sink: s, Node: "node-1"})
			r.Record(events.ProfileApplied, "first")
			running.Go(func() { _ = r.Run(ctx) })
			all = append(all, r)
		}
		before, most := 0, 0
		for range 10 {
			<-time.After(time.Second)
			synctest.Wait()
			now := s.count()
			before, most = now, max(most, now-before)
		}
		if before != agents || most > agents/4 {
			t.Errorf("%d Events of %d in 10 s, %d within a second", before, agents, most)
		}
		for _, r := range all {
			r.Record(events.ProfileApplied, "second")
		}
		synctest.Wait()
		if got := s.count(); got != 2*agents {
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
	r := events.New(events.Options{Sink: server.Client(t), Node: "node-1", Timing: atOnce})
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

// Verifies that an API server which is away costs a few tries and a line in the
// log, never the caller's time, and that Events are written again when it is back.
func TestAway(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sink, r *events.Recorder, log *bytes.Buffer) {
		s.fail(errors.New("connection refused"))
		start := time.Now()
		for i := range 200 {
			r.Record([]events.Reason{events.BackendFailed, events.DeviceUnhealthy, events.DeviceRecovered, events.ProfileRefused, events.ProfileApplied,
				events.ConfigurationRefused, events.BackendQuarantined, "A", "B"}[i%9], "number %d", i)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("recording took %v", took)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if s.calls == 0 || s.calls > (66+15)*5 {
			t.Errorf("%d tries for 65 Events", s.calls)
		}
		if text := log.String(); !strings.Contains(text, "Event dropped: too many wait") || !strings.Contains(text, `msg="Event not written" reason=BackendFailed message="number 0"`) {
			t.Errorf("log:\n%s", text)
		}
		if notes := r.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "Node node-1 cannot be written: connection refused") {
			t.Errorf("notes %q", notes)
		}
		s.fail(nil)
		r.Record(events.ProfileApplied, "back")
		<-time.After(time.Minute)
		synctest.Wait()
		// With it the newest of those that could not be written.
		back := slices.ContainsFunc(s.created, func(e corev1.Event) bool { return e.Message == "back" })
		if len(s.created) != 2 || !back || len(r.Notes()) != 0 {
			t.Errorf("created %v, notes %q", s.created, r.Notes())
		}
	})
}

// Verifies that the log tells once of an outage, however many Events and tries there are,
// and once of its end, with what was lost; and of the next outage again.
func TestOutageIsToldOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sink, r *events.Recorder, log *bytes.Buffer) {
		for outage := range 2 {
			log.Reset()
			s.fail(errors.New("connection refused"))
			for i := range 3 {
				r.Record(events.BackendFailed, "outage %d, number %d", outage, i)
			}
			<-time.After(24 * time.Hour)
			synctest.Wait()
			if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN msg=\"Event not written\"") {
				t.Errorf("outage %d, the log:\n%s", outage, text)
			}
			s.fail(nil)
			<-time.After(time.Hour)
			synctest.Wait()
			r.Record(events.ProfileApplied, "all is well")
			synctest.Wait()
			if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "level=INFO msg=\"Events are written again\" lost=2\n") {
				t.Errorf("after outage %d, the log:\n%s", outage, text)
			}
		}
	})
}

// Verifies that a right which is missing is named in the notes with what to do,
// that the newest Event is tried again, less and less often, and that Events come
// again by themselves when the right is back.
func TestForbidden(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sink, r *events.Recorder, log *bytes.Buffer) {
		s.fail(apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no rights")))
		r.Record(events.ProfileApplied, "one")
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if s.asked() < 2 || s.asked() > 3 || !strings.Contains(log.String(), "no rights") {
			t.Errorf("%d tries within two minutes, log %s", s.asked(), log.String())
		}
		if notes := fmt.Sprint(r.Notes()); !strings.Contains(notes, "kubectl auth can-i create events --namespace=default") {
			t.Errorf("notes %s", notes)
		}
		<-time.After(24 * time.Hour)
		synctest.Wait()
		if s.asked() > 24*12+10 {
			t.Errorf("%d tries within a day", s.asked())
		}
		s.fail(nil)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if len(s.written()) != 1 || len(r.Notes()) != 0 {
			t.Errorf("created %v, notes %q", s.written(), r.Notes())
		}
		before := s.asked()
		<-time.After(24 * time.Hour)
		synctest.Wait()
		if s.asked() != before {
			t.Errorf("%d requests with nothing to say", s.asked()-before)
		}
	})
}

// Verifies that a reason that comes without end is limited and leaves the others
// their room.
func TestRate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sink, r *events.Recorder, log *bytes.Buffer) {
		for i := range 60 {
			r.Record(events.DeviceUnhealthy, "device %d", i)
		}
		r.Record(events.ProfileRefused, "important")
		synctest.Wait()
		if got := len(s.created); got != 11 || s.created[10].Message != "important" {
			t.Errorf("%d Events, want 10 of the one reason and the other", got)
		}
		if got := strings.Count(log.String(), "come too fast"); got != 1 {
			t.Errorf("%d lines in the log, want one:\n%s", got, log.String())
		}
		<-time.After(3*time.Minute + time.Second)
		for i := range 60 {
			r.Record(events.DeviceUnhealthy, "later %d", i)
		}
		synctest.Wait()
		if got := len(s.created); got != 14 {
			t.Errorf("%d Events three minutes later, want 14", got)
		}
	})
}

// Verifies that the same Event is counted up for a while, written anew after that,
// and when the server has forgotten it.
func TestRepetition(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sink, r *events.Recorder, _ *bytes.Buffer) {
		record := func() { r.Record(events.BackendFailed, "it crashed"); synctest.Wait() }
		record()
		<-time.After(20 * time.Minute)
		record()
		<-time.After(20 * time.Minute)
		record()
		if len(s.created) != 1 || len(s.patches) != 2 || !strings.Contains(s.patches[1], `"count":3`) {
			t.Errorf("created %d, patches %q", len(s.created), s.patches)
		}
		<-time.After(31 * time.Minute)
		record()
		if len(s.created) != 2 {
			t.Errorf("%d Events after half an hour of quiet, want a second one", len(s.created))
		}
		s.mu.Lock()
		s.gone = true
		s.mu.Unlock()
		record()
		if len(s.created) != 3 {
			t.Errorf("%d Events after the server forgot, want a third one", len(s.created))
		}
	})
}

// Verifies that a long message is cut at a character, and that a nil recorder
// takes everything.
func TestLongMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sink, r *events.Recorder, _ *bytes.Buffer) {
		for shift := range 4 {
			r.Record(events.ProfileRefused, "%s%s", strings.Repeat("x", shift), strings.Repeat("é", 2000))
		}
		synctest.Wait()
		for _, e := range s.created {
			if len(e.Message) > 1024 || !utf8.ValidString(e.Message) || !strings.HasSuffix(e.Message, "é ...") {
				t.Errorf("%d bytes, valid %v: %s", len(e.Message), utf8.ValidString(e.Message), fmt.Sprint(e.Message[1000:]))
			}
		}
	})
	var none *events.Recorder
	none.Record(events.ProfileApplied, "nobody listens")
	if none.Notes() != nil {
		t.Error("a nil recorder has notes")
	}
}
