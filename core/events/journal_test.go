package events_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
)

// Verifies what is logged of a device that is found, fails, recovers and is removed, each
// change once, and that what one round logs is bounded.
func TestJournal(t *testing.T) {
	var log bytes.Buffer
	j := events.NewJournal(slog.New(slog.NewTextHandler(&log, nil)), nil)
	after := func(healthy bool, ids ...string) string {
		stages := round.Round{Snapshot: &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "mock"}}}, Health: &health.View{}, Table: &resource.Table{}}
		stages.Unusable = map[inventory.Key]health.Fault{}
		for _, id := range ids {
			d := &inventory.Device{Key: inventory.Key{Backend: "mock", ID: id}}
			stages.Snapshot.Backends[0].Devices = append(stages.Snapshot.Backends[0].Devices, d)
			if !healthy {
				stages.Unusable[d.Key] = health.Fault{Code: "broken"}
			}
		}
		log.Reset()
		j.Round(round.New(stages))
		return log.String()
	}
	for _, step := range []struct {
		healthy bool
		ids     []string
		want    string
	}{
		{true, []string{"a"}, "device found"},
		{true, []string{"a"}, ""},
		{false, []string{"a"}, "device unhealthy"},
		{false, []string{"a"}, ""},
		{true, []string{"a"}, "device healthy again"},
		{true, nil, "device removed"},
	} {
		got := after(step.healthy, step.ids...)
		if step.want == "" && got != "" || strings.Count(got, "\n") > 1 || !strings.Contains(got, step.want) {
			t.Errorf("after %+v the log is %q", step, got)
		}
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint(i))
	}
	if got := after(true, many...); strings.Count(got, "\n") != 33 || !strings.Contains(got, "count=68") {
		t.Errorf("of 100 devices the log is %s", got)
	}
}
