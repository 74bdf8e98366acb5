package health

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// episode is one fault in the model, which has not what the judge does in every case, but
// what it may never do.
type episode struct {
	recovery inventory.Recovery // the gravest reported since it stands
	evidence bool               // something was reported or done that may clear it
	at       time.Time          // when the evidence came
	reset    time.Time          // when a reset worked that the backend has yet to confirm
}

// model drives a rig at random and checks after every call of Judge that no fault is
// forgotten and that none is cleared without evidence.
type model struct {
	*rig
	episodes map[string]map[string]*episode // by device and code
	seen     map[string]map[string]bool     // faults in the last view
	lost     bool
}

func (m *model) device(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "device")
}

func (m *model) listed(id string) bool { return m.devices[id] != nil }

func (m *model) episodesOf(id string) map[string]*episode {
	if m.episodes[id] == nil {
		m.episodes[id] = map[string]*episode{}
	}
	return m.episodes[id]
}

// note updates the model with a report.
func (m *model) note(id string, h *backendv1.Health) {
	all := m.episodesOf(id)
	for code, e := range all {
		if e.reset.IsZero() || e.evidence {
			continue
		}
		if h.State != backendv1.HealthState_HEALTH_STATE_UNHEALTHY || h.Code != code {
			e.evidence, e.at = true, m.now
		} else if m.now.Sub(e.reset) >= resetGrace || inventory.Recovery(h.Recovery) > e.recovery {
			e.reset = time.Time{}
		}
	}
	switch h.State {
	case backendv1.HealthState_HEALTH_STATE_UNHEALTHY:
		e, r := all[h.Code], inventory.Recovery(h.Recovery)
		if e == nil || e.evidence {
			e = &episode{recovery: r}
			all[h.Code] = e
		}
		e.recovery = max(e.recovery, r)
	case backendv1.HealthState_HEALTH_STATE_HEALTHY:
		for _, e := range all {
			if !e.evidence && (h.Recovered || e.recovery == inventory.RecoverySelf) {
				e.evidence, e.at = true, m.now
			}
		}
	}
}

func (m *model) reportAll() {
	m.report()
	m.lost = false
	for id, d := range m.devices {
		m.note(id, d.Health)
	}
}

func (m *model) actions() map[string]func(*rapid.T) {
	statement := rapid.Custom(func(t *rapid.T) *backendv1.Health {
		switch rapid.IntRange(0, 5).Draw(t, "state") {
		case 0:
			return recovered()
		case 1, 2:
			return healthy()
		case 3:
			return unknown()
		}
		return faulty(rapid.SampledFrom([]string{"c1", "c2", "c3"}).Draw(t, "code"),
			backendv1.Recovery(rapid.IntRange(1, 4).Draw(t, "recovery")))
	})
	return map[string]func(*rapid.T){
		"say": func(t *rapid.T) {
			id := m.device(t)
			if !m.listed(id) {
				t.Skip("not listed")
			}
			m.devices[id] = &backendv1.Device{Id: id, Class: "gpu", Health: statement.Draw(t, "health"), Edits: m.devices[id].Edits}
			m.reportAll()
		},
		"unplug": func(t *rapid.T) {
			delete(m.devices, m.device(t))
			m.reportAll()
		},
		"plug": func(t *rapid.T) {
			id := m.device(t)
			if m.listed(id) {
				t.Skip("listed")
			}
			m.plug(id).Health = statement.Draw(t, "health")
			m.reportAll()
		},
		"wait": func(t *rapid.T) {
			m.judgeAndCheck() // skipped snapshots are remembered for a minute only
			m.wait(rapid.SampledFrom([]time.Duration{time.Second, testDelay, 10 * time.Second, 2 * time.Minute}).Draw(t, "for"))
		},
		"lose": func(*rapid.T) {
			m.store.Lost("mock")
			m.lost = true
		},
		"restart of the backend": func(*rapid.T) {
			m.store.Lost("mock")
			m.store.Restarted("mock")
			m.wireGen, m.lost = 0, true
		},
		"restart": func(*rapid.T) {
			// A report that was not judged dies with the process, so judge first.
			m.judgeAndCheck()
			m.newStore()
			m.open()
			m.reportAll()
		},
		"boot": func(*rapid.T) {
			m.boot += "x"
			m.newStore()
			m.open()
			clear(m.episodes)
			clear(m.seen)
			m.reportAll()
		},
		"reset": func(t *rapid.T) {
			m.judgeAndCheck() // the core resets what it has judged
			id, ok := m.device(t), rapid.Bool().Draw(t, "worked")
			m.judge.ResetDone(key(id), ok, "message")
			for _, e := range m.episodesOf(id) {
				if ok && !e.evidence && e.recovery <= inventory.RecoveryReset {
					e.reset = m.now
				}
			}
		},
		"judge": func(*rapid.T) { m.judgeAndCheck() },
	}
}

// judgeAndCheck judges and checks all that must hold.
func (m *model) judgeAndCheck() {
	if !m.lost {
		for id, d := range m.devices {
			m.note(id, d.Health) // the current inventory counts at every call
		}
	}
	v := m.judgeNow()
	for _, id := range []string{"a", "b"} {
		verdict := v.Verdict(key(id))
		if verdict.Healthy != (len(verdict.Faults) == 0) {
			m.t.Fatalf("%s: healthy is %v with %v", id, verdict.Healthy, verdict.Faults)
		}
		has := map[string]bool{}
		for i, f := range verdict.Faults {
			if i > 0 && f.Recovery > verdict.Faults[i-1].Recovery {
				m.t.Fatalf("%s: %v hides a graver fault", id, verdict.Faults)
			}
			if f.Code == CodeBackendLost {
				continue
			}
			has[f.Code] = true
			e := m.episodesOf(id)[f.Code]
			if e == nil {
				m.t.Fatalf("%s: fault %s was never reported", id, f.Code)
			}
			if f.Recovery < e.recovery && !e.evidence {
				m.t.Fatalf("%s: fault %s has only %v, and had %v", id, f.Code, f.Recovery, e.recovery)
			}
		}
		for code, e := range m.episodesOf(id) {
			if has[code] {
				continue
			}
			if !e.evidence {
				m.t.Fatalf("%s: fault %s (%v) is gone without evidence", id, code, e.recovery)
			}
			if m.seen[id][code] && m.now.Before(e.at.Add(testDelay)) {
				m.t.Fatalf("%s: fault %s is gone before its delay passed", id, code)
			}
			delete(m.episodesOf(id), code)
		}
		m.seen[id] = has
	}
	if again := m.judge.Judge(m.store.Snapshot()); !reflect.DeepEqual(again, v) {
		m.t.Fatalf("a second call of Judge returns another view")
	}
	m.checkFile()
}

// checkFile verifies that the file has the same faults.
func (m *model) checkFile() {
	other, err := Open(Options{Path: m.path, BootID: m.boot, Now: m.clock})
	if err != nil || len(other.Notes()) > 0 {
		m.t.Fatalf("open: %v, %q", err, other.Notes())
	}
	if want, got := flags(m.judge), flags(other); !maps.Equal(want, got) {
		m.t.Fatalf("in the file is %v, in memory %v", got, want)
	}
}

func flags(j *Judge) map[string]string {
	out := map[string]string{}
	for k, r := range j.records {
		for _, f := range r.faults {
			out[k.ID+" "+f.code] = fmt.Sprint(f.recovery, f.cleared(), !f.resetAt.IsZero(), f.note)
		}
	}
	return out
}

// Verifies the rules of stickiness and recovery over random histories with restarts.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "health")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		m := &model{
			rig: newRigIn(t, dir, "a", "b"), episodes: map[string]map[string]*episode{}, seen: map[string]map[string]bool{},
		}
		m.reportAll()
		t.Repeat(m.actions())

		// Every unhealthy device has a way back, whatever happened.
		for _, id := range []string{"a", "b"} {
			m.plug(id).Health = recovered()
		}
		m.reportAll()
		m.judgeAndCheck()
		m.wait(maxDelay)
		v := m.judgeNow()
		for _, id := range []string{"a", "b"} {
			if got := codes(v, id); got != "" {
				t.Fatalf("%s has no way back from %s", id, got)
			}
		}
	})
}
