package events_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/supervisor"
)

// Verifies what is logged and remembered of a device that is found, fails in one way and another, recovers and
// is removed, each change once, and that what one round logs, and what is remembered, is bounded.
func TestJournal(t *testing.T) {
	var log bytes.Buffer
	j := events.NewJournal(slog.New(slog.NewTextHandler(&log, nil)), nil)
	after := func(fault string, ids ...string) string {
		stages := round.Round{Snapshot: &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "mock"}}}, Health: &health.View{}, Table: &resource.Table{}}
		stages.Unusable = map[inventory.Key]health.Fault{}
		for _, id := range ids {
			d := &inventory.Device{Key: inventory.Key{Backend: "mock", ID: id}}
			stages.Snapshot.Backends[0].Devices = append(stages.Snapshot.Backends[0].Devices, d)
			if fault != "" {
				stages.Unusable[d.Key] = health.Fault{Code: fault, Recovery: inventory.RecoveryReset}
			}
		}
		log.Reset()
		j.Round(round.New(stages))
		return log.String()
	}
	for _, step := range []struct {
		fault string
		ids   []string
		want  string
	}{
		{"", []string{"a"}, "device found"},
		{"", []string{"a"}, ""},
		{"hot", []string{"a"}, "device unhealthy"},
		{"hot", []string{"a"}, ""},
		{"lost", []string{"a"}, ""},
		{"", []string{"a"}, "device healthy again"},
		{"", nil, "device removed"},
	} {
		got := after(step.fault, step.ids...)
		if step.want == "" && got != "" || strings.Count(got, "\n") > 1 || !strings.Contains(got, step.want) {
			t.Errorf("after %+v the log is %q", step, got)
		}
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint(i))
	}
	if got := after("", many...); strings.Count(got, "\n") != 33 || !strings.Contains(got, "count=68") {
		t.Errorf("of 100 devices the log is %s", got)
	}
	var remembered []string
	for _, c := range j.Changes() {
		remembered = append(remembered, fmt.Sprintf("%s %s %s +%d", c.Device.ID, c.What, c.Code, c.Others))
	}
	want := []string{"0 found  +99", "a removed  +0", "a healthy again  +0", "a unhealthy lost +0", "a unhealthy hot +0", "a found  +0"}
	if diff := cmp.Diff(want, remembered); diff != "" {
		t.Errorf("remembered (-want +got):\n%s", diff)
	}
	for i := range 150 {
		after([]string{"hot", ""}[i%2], "0")
	}
	if all := j.Changes(); len(all) != 100 || all[0].What != "healthy again" || all[99].What != "unhealthy" {
		t.Errorf("remembered %d changes, from %+v to %+v", len(all), all[len(all)-1], all[0])
	}
}

// Verifies which changes of a backend are Events: each once, and a pause with the label that causes it, and its end.
func TestBackends(t *testing.T) {
	const label, other = "the node has the label a/b=paused", "the node has the label a/c=paused"
	inBubble(t, func(t *testing.T, s *server, r *events.Recorder, _ *bytes.Buffer) {
		j := events.NewJournal(slog.New(slog.DiscardHandler), r)
		failed := supervisor.Status{Name: "mock", State: supervisor.Quarantined, LastError: "it exited", LastErrorAt: time.Now()}
		for _, status := range []supervisor.Status{
			{Name: "mock"}, {Name: "mock", Paused: label}, {Name: "mock", Paused: label}, {Name: "mock", Paused: other}, {Name: "mock"}, {Name: "mock"}, failed, failed,
		} {
			j.Backends([]supervisor.Status{status})
			synctest.Wait()
		}
		var got []string
		for _, e := range s.created {
			got = append(got, e.Type+" "+e.Reason+": "+e.Message)
		}
		want := []string{
			"Warning BackendPaused: backend mock is paused: " + label, "Warning BackendPaused: backend mock is paused: " + other,
			"Normal BackendResumed: backend mock is no longer paused", "Warning BackendQuarantined: backend mock is quarantined: it exited",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
	})
}
