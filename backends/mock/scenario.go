package mock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/backends/sdk"
)

// maxSteps bounds the steps of a scenario.
const maxSteps = 1000

// scenario is a scenario file; README.md is the reference.
type scenario struct {
	moment
	Steps []step `json:"steps"`
}

// step changes a scenario some time after it was loaded.
type step struct {
	After duration `json:"after"`
	moment
}

// moment is what holds at one time. In a step, what is absent stays as it was.
type moment struct {
	// Devices by ID or pattern; an entry replaces the earlier one of the same key.
	Devices map[string]entry `json:"devices"`
	// Plug are devices beyond those of the settings.
	Plug     []group  `json:"plug"`
	Problems []string `json:"problems"`
	Crash    *crash   `json:"crash"`
	Hang     *hang    `json:"hang"`
	Garbage  *garbage `json:"garbage"`

	plugged []*spec // Plug, expanded
}

// entry is what is unusual about devices.
type entry struct {
	Fault      *fault           `json:"fault"`
	Recovered  bool             `json:"recovered"`
	Unknown    bool             `json:"unknown"`
	Unplugged  bool             `json:"unplugged"`
	Attributes map[string]value `json:"attributes"`
	Prepare    *behaviour       `json:"prepare"`
	Release    *behaviour       `json:"release"`
	Reset      *resetBehaviour  `json:"reset"`
}

// fault makes a device unhealthy.
type fault struct {
	Code     string `json:"code"`
	Message  string `json:"message"`
	Recovery string `json:"recovery"`
}

// action is something that must not happen again by itself when the process
// that comes after reads the same file.
type action struct {
	// ID tells this action from the one before; another ID is another action.
	ID label `json:"id"`
	// Repeat makes it happen in every process that reads the file.
	Repeat bool `json:"repeat"`
}

type crash struct {
	action
	ExitCode *int `json:"exitCode"`
}

type hang struct {
	action
	For duration `json:"for"` // 0: until the process or the action is gone
}

type garbage struct {
	action
	For   duration `json:"for"`
	Kinds []string `json:"kinds"` // default: all but oversize and too-many-devices
}

// actions are those of a moment, by kind.
func (m *moment) actions() map[string]action {
	a := map[string]action{}
	if m.Crash != nil {
		a["crash"] = m.Crash.action
	}
	if m.Hang != nil {
		a["hang"] = m.Hang.action
	}
	if m.Garbage != nil {
		a["garbage"] = m.Garbage.action
	}
	return a
}

// parseScenario reads a scenario strictly. YAML is turned into JSON first, so
// that both say what is wrong in the same terms.
func parseScenario(data []byte) (*scenario, error) {
	asJSON, err := yamlToJSON(data)
	if err != nil {
		return nil, err
	}
	s := &scenario{}
	if err := sdk.DecodeSettings(asJSON, s); err != nil {
		return nil, err
	}
	var errs sdk.FieldErrors
	s.check("", &errs)
	if len(s.Steps) > maxSteps {
		errs.Add("steps", "%d are too many: at most %d", len(s.Steps), maxSteps)
		return nil, errs
	}
	for i := range s.Steps {
		s.Steps[i].check(fmt.Sprintf("steps[%d]", i), &errs)
		if i > 0 && s.Steps[i].After < s.Steps[i-1].After {
			errs.Add(fmt.Sprintf("steps[%d].after", i), "earlier than the step before; put the steps in their order")
		}
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

func yamlToJSON(data []byte) ([]byte, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc any
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return []byte("{}"), nil
	case err != nil:
		return nil, err
	}
	var more any
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document; keep one")
	}
	if doc == nil {
		return []byte("{}"), nil
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("every key must be a string: %w", err)
	}
	return out, nil
}

// check validates a moment and expands what it plugs.
func (m *moment) check(at string, errs *sdk.FieldErrors) {
	for _, key := range slices.Sorted(maps.Keys(m.Devices)) {
		at := fmt.Sprintf("%s[%q]", field(at, "devices"), key)
		if _, err := path.Match(key, ""); err != nil || key == "" {
			errs.Add(at, "the key is neither a device ID nor a pattern: %v", err)
		}
		e := m.Devices[key]
		e.check(at, errs)
	}
	if m.Plug != nil {
		m.plugged = expand(m.Plug, field(at, "plug"), defaultPluggedID, 0, errs)
	}
	if c := m.Crash; c != nil && c.ExitCode != nil && (*c.ExitCode < 0 || *c.ExitCode > 255) {
		errs.Add(field(at, "crash.exitCode"), "%d is no exit code: 0 to 255", *c.ExitCode)
	}
	if m.Garbage != nil {
		for i, k := range m.Garbage.Kinds {
			if _, ok := litter[k]; !ok {
				errs.Add(fmt.Sprintf("%s[%d]", field(at, "garbage.kinds"), i), "%q is no kind of garbage: %s",
					k, strings.Join(slices.Sorted(maps.Keys(litter)), ", "))
			}
		}
	}
}

func (e *entry) check(at string, errs *sdk.FieldErrors) {
	n := 0
	for _, set := range []bool{e.Fault != nil, e.Recovered, e.Unknown} {
		if set {
			n++
		}
	}
	if n > 1 {
		errs.Add(at, "fault, recovered and unknown exclude each other")
	}
	if f := e.Fault; f != nil {
		f.Code, f.Message, f.Recovery = or(f.Code, "mock-fault"), or(f.Message, "the scenario says so"), or(f.Recovery, "self")
		if !faultCode.MatchString(f.Code) {
			errs.Add(at+".fault.code", "%q is no code: at most 63 letters, digits and _ . -", f.Code)
		}
		if _, ok := recovery(f.Recovery); !ok {
			errs.Add(at+".fault.recovery", "%q is no recovery: self, reset, reboot or replacement", f.Recovery)
		}
	}
	for name := range e.Attributes {
		if !factName.MatchString(name) {
			errs.Add(at+".attributes", "%q is no attribute name: a C identifier of at most 32 characters", name)
		}
	}
	e.Reset.check(at+".reset", errs)
	if e.Prepare != nil && e.Prepare.Edits != nil {
		checkEdits(e.Prepare.Edits, at+".prepare.edits", errs)
	}
	if e.Release != nil && e.Release.Edits != nil {
		errs.Add(at+".release.edits", "only prepare gives edits")
	}
}

// lookup finds what is said of a device: under its own ID, under that of its
// parent if the parent is not listed itself, or under the most specific pattern
// that matches, which is the longest.
func (m *moment) lookup(s *spec, listed map[string]*spec) entry {
	id, parent := s.device.GetId(), s.facts.Parent
	if e, ok := m.Devices[id]; ok {
		return e
	}
	if parent != "" {
		e, ok := m.Devices[parent]
		if ok && listed[parent] == nil {
			return e
		}
		if ok && e.Unplugged { // nothing is left of a device that is gone
			return entry{Unplugged: true}
		}
	}
	best := ""
	for key := range m.Devices {
		ok, err := path.Match(key, id)
		if err == nil && ok && (len(key) > len(best) || len(key) == len(best) && key < best) {
			best = key
		}
	}
	return m.Devices[best]
}
