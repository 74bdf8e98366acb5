package events

import (
	"context"
	"log/slog"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/supervisor"
)

// journalLines bounds the log lines about devices in one round.
const journalLines = 32

// Journal logs devices that were found, removed, failed or recovered since the last round, remembers
// the latest of these changes, and records Events for failures and recoveries. Only Changes is safe for
// concurrent use.
type Journal struct {
	log *slog.Logger
	// events may be nil: no Events are recorded.
	events *Recorder
	last   *round.Round
	// statuses are the backends' statuses at the last call of Backends, by name.
	statuses map[string]supervisor.Status
	// left is how many lines this round may still log; silent counts the suppressed ones.
	left, silent int
	// at is the time of this round.
	at      time.Time
	history history
}

// NewJournal returns a Journal; recorder may be nil.
func NewJournal(log *slog.Logger, recorder *Recorder) *Journal {
	return &Journal{log: log, events: recorder}
}

// Round logs the differences between a round and the one before.
func (j *Journal) Round(now *round.Round) {
	j.left, j.silent, j.at = journalLines, 0, time.Now()
	j.devices(j.last, now)
	j.problems(j.last, now)
	if j.silent > 0 {
		j.log.Info("more devices changed", "count", j.silent)
	}
	j.last = now
}

// devices compares all devices of both rounds.
func (j *Journal) devices(before, after *round.Round) {
	for _, backend := range after.Backends() {
		for _, device := range backend.Devices {
			j.compare(before, after, device, before.Device(device.Key) != nil)
		}
	}
	for _, backend := range before.Backends() {
		for _, device := range backend.Devices {
			if after.Device(device.Key) == nil {
				j.line(slog.LevelWarn, "device removed", device.Key)
				j.history.add(Change{At: j.at, Device: device.Key, What: "removed"})
			}
		}
	}
}

// compare logs the change of a device; known is whether the round before had it.
func (j *Journal) compare(before, after *round.Round, device *inventory.Device, known bool) {
	now := after.OwnVerdict(device.Key)
	was, code := true, ""
	if known {
		verdict := before.OwnVerdict(device.Key)
		if was = verdict.Healthy; len(verdict.Faults) > 0 {
			code = verdict.Faults[0].Code
		}
	}
	if len(now.Faults) > 0 && !now.Healthy && now.Faults[0].Code != code {
		fault := now.Faults[0]
		j.history.add(Change{
			At: j.at, Device: device.Key, What: "unhealthy", Code: fault.Code, Message: fault.Message, Recovery: fault.Recovery,
		})
	}
	switch {
	case was && !now.Healthy && len(now.Faults) > 0:
		fault := now.Faults[0]
		j.line(slog.LevelWarn, "device unhealthy", device.Key,
			"code", fault.Code, "message", fault.Message, "recovery", fault.Recovery.String())
		j.events.Record(DeviceUnhealthy, "device %s of backend %s is unhealthy: %s: %s%s",
			device.ID, device.Backend, fault.Code, fault.Message, fault.Recovery.Need())
	case !was && now.Healthy:
		j.line(slog.LevelInfo, "device healthy again", device.Key)
		j.history.add(Change{At: j.at, Device: device.Key, What: "healthy again"})
		j.events.Record(DeviceRecovered, "device %s of backend %s is healthy again", device.ID, device.Backend)
	case !known:
		j.line(slog.LevelInfo, "device found", device.Key, "class", device.Class)
		j.history.add(Change{At: j.at, Device: device.Key, What: "found"})
	}
}

// Backends records Events for backends that failed, or that a node label paused or does not any longer, since the last call.
// The supervisor logs that.
func (j *Journal) Backends(statuses []supervisor.Status) {
	now := make(map[string]supervisor.Status, len(statuses))
	for _, s := range statuses {
		now[s.Name] = s
		before := j.statuses[s.Name]
		switch {
		case s.Paused != before.Paused && s.Paused != "":
			j.events.Record(BackendPaused, "backend %s is paused: %s", s.Name, s.Paused)
		case s.Paused != before.Paused:
			j.events.Record(BackendResumed, "backend %s is no longer paused", s.Name)
		}
		switch {
		case s.State == supervisor.Quarantined && before.State != supervisor.Quarantined:
			j.events.Record(BackendQuarantined, "backend %s is quarantined: %s", s.Name, s.LastError)
		case s.LastError != "" && s.LastErrorAt.After(before.LastErrorAt):
			j.events.Record(BackendFailed, "backend %s failed: %s", s.Name, s.LastError)
		}
	}
	j.statuses = now
}

// problems logs the problems that are new.
func (j *Journal) problems(before, after *round.Round) {
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

func (j *Journal) line(level slog.Level, message string, key inventory.Key, more ...any) {
	if j.left == 0 {
		j.silent++
		return
	}
	j.left--
	j.log.With("backend", key.Backend, "device", key.ID).With(more...).Log(context.Background(), level, message)
}
