package agent

import (
	"context"
	"log/slog"

	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/supervisor"
)

// journalLines bounds what one round may log, device by device.
const journalLines = 32

// journal logs what changed from one round to the next, so that no device is
// lost, fails or comes back without a word.
type journal struct {
	log *slog.Logger
	// events takes what is worth an Event on the Node; nil for nowhere.
	events *events.Recorder
	// seen are the backends' statuses as of the last round.
	seen map[string]supervisor.Status
	// left is how many lines this round may still log; silent counts the rest.
	left, silent int
}

// write logs the differences of two views; before is nil in the first round.
func (j *journal) write(before, after *round.Round) {
	j.left, j.silent = journalLines, 0
	j.devices(before, after)
	j.problems(before, after)
	if j.silent > 0 {
		j.log.Info("more devices changed", "count", j.silent)
	}
}

// devices goes over all that are there, or were.
func (j *journal) devices(before, after *round.Round) {
	for _, backend := range after.Backends() {
		for _, device := range backend.Devices {
			j.compare(before, after, device, before.Device(device.Key) != nil)
		}
	}
	for _, backend := range before.Backends() {
		for _, device := range backend.Devices {
			if after.Device(device.Key) == nil {
				j.line(slog.LevelWarn, "device gone", device.Key)
			}
		}
	}
}

// compare logs what became of a device; known says that it was there before.
func (j *journal) compare(before, after *round.Round, device *inventory.Device, known bool) {
	now := after.OwnVerdict(device.Key)
	was := !known || before.OwnVerdict(device.Key).Healthy
	switch {
	case was && !now.Healthy && len(now.Faults) > 0:
		fault := now.Faults[0]
		j.line(slog.LevelWarn, "device unhealthy", device.Key,
			"code", fault.Code, "message", fault.Message, "recovery", fault.Recovery.String())
		j.events.Record(events.DeviceUnhealthy, "device %s of backend %s is unhealthy: %s: %s (needs: %s)",
			device.ID, device.Backend, fault.Code, fault.Message, fault.Recovery)
	case !was && now.Healthy:
		j.line(slog.LevelInfo, "device healthy again", device.Key)
		j.events.Record(events.DeviceRecovered, "device %s of backend %s is healthy again", device.ID, device.Backend)
	case !known:
		j.line(slog.LevelInfo, "device found", device.Key, "class", device.Class)
	}
}

// backends records what became of the backends since the last round; the
// supervisor has logged it.
func (j *journal) backends(statuses []supervisor.Status) {
	now := make(map[string]supervisor.Status, len(statuses))
	for _, s := range statuses {
		now[s.Name] = s
		before := j.seen[s.Name]
		switch {
		case s.State == supervisor.Quarantined && before.State != supervisor.Quarantined:
			j.events.Record(events.BackendQuarantined, "backend %s is quarantined: %s", s.Name, s.LastError)
		case s.LastError != "" && s.LastErrorAt.After(before.LastErrorAt):
			j.events.Record(events.BackendFailed, "backend %s failed: %s", s.Name, s.LastError)
		}
	}
	j.seen = now
}

// problems logs sentences that were not there before.
func (j *journal) problems(before, after *round.Round) {
	old := map[string]bool{}
	for _, backend := range before.Backends() {
		for _, problem := range backend.Problems {
			old[backend.Name+problem.Device+problem.Message] = true
		}
	}
	for _, backend := range after.Backends() {
		for _, problem := range backend.Problems {
			if !old[backend.Name+problem.Device+problem.Message] {
				j.line(slog.LevelWarn, "problem", inventory.Key{Backend: backend.Name, ID: problem.Device}, "message", problem.Message)
			}
		}
	}
}

func (j *journal) line(level slog.Level, message string, key inventory.Key, more ...any) {
	if j.left == 0 {
		j.silent++
		return
	}
	j.left--
	j.log.With("backend", key.Backend, "device", key.ID).With(more...).Log(context.Background(), level, message)
}
