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

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"

	"github.com/accelmux/accelmux/backends/sdk"
)

// scenario is a scenario file; README.md is the reference.
type scenario struct {
	// Devices by ID or pattern.
	Devices map[string]entry `json:"devices"`
	// Plug are devices beyond those of the settings.
	Plug     []group  `json:"plug"`
	Problems []string `json:"problems"`
	// Unread is why no device can be looked at; "" if that is not so.
	Unread  string   `json:"unread"`
	Crash   *action  `json:"crash"`
	Hang    *action  `json:"hang"`
	Garbage *garbage `json:"garbage"`
	Steps   []step   `json:"steps"`

	plugged []*spec // Plug, expanded
}

// step changes devices some time after the scenario was loaded. An entry replaces the earlier
// one of the same key.
type step struct {
	After   sdk.Duration     `json:"after"`
	Devices map[string]entry `json:"devices"`
}

// entry has the deviations of devices from the settings.
type entry struct {
	Fault      *fault           `json:"fault"`
	Recovered  bool             `json:"recovered"`
	Unplugged  bool             `json:"unplugged"`
	Unread     string           `json:"unread"`
	Exists     bool             `json:"exists"`
	Attributes map[string]value `json:"attributes"`
	Prepare    *prepare         `json:"prepare"`
	Release    *behaviour       `json:"release"`
	Reset      *resetBehaviour  `json:"reset"`
}

// fault makes a device unhealthy.
type fault struct {
	Code     string `json:"code"`
	Message  string `json:"message"`
	Recovery string `json:"recovery"`
	Reach    string `json:"reach"`
}

// action must not happen again when the next process reads the same file.
type action struct {
	// ID distinguishes this action from the one before.
	ID json.RawMessage `json:"id"`
	// Repeat makes it happen in every process that reads the file.
	Repeat bool `json:"repeat"`
}

type garbage struct {
	action
	For   sdk.Duration `json:"for"` // 0: until the action leaves the file
	Kinds []string     `json:"kinds"`
}

// actions returns the actions of a scenario, by kind.
func (s *scenario) actions() map[string]action {
	a := map[string]action{}
	if s.Crash != nil {
		a["crash"] = *s.Crash
	}
	if s.Hang != nil {
		a["hang"] = *s.Hang
	}
	if s.Garbage != nil {
		a["garbage"] = s.Garbage.action
	}
	return a
}

// parseScenario parses a scenario strictly. YAML is converted to JSON first, so that both have
// the same errors.
func parseScenario(data []byte) (*scenario, error) {
	asJSON, err := yamlToJSON(data)
	if err != nil {
		return nil, err
	}
	s := &scenario{}
	if strict, err := kjson.UnmarshalStrict(asJSON, s); err != nil || len(strict) > 0 {
		return nil, errors.Join(append(strict, err)...)
	}
	var errs sdk.FieldErrors
	checkEntries(s.Devices, "devices", &errs)
	for i := range s.Steps {
		checkEntries(s.Steps[i].Devices, fmt.Sprintf("steps[%d].devices", i), &errs)
		if i > 0 && s.Steps[i].After < s.Steps[i-1].After {
			errs.Add(fmt.Sprintf("steps[%d].after", i), "earlier than the step before; put the steps in their order")
		}
	}
	if s.Plug != nil {
		s.plugged = expand(s.Plug, "plug", defaultPluggedID, &errs)
	}
	if s.Garbage != nil {
		s.Garbage.check(&errs)
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

func checkEntries(devices map[string]entry, at string, errs *sdk.FieldErrors) {
	for _, key := range slices.Sorted(maps.Keys(devices)) {
		at := fmt.Sprintf("%s[%q]", at, key)
		if _, err := path.Match(key, ""); err != nil || key == "" {
			errs.Add(at, "the key is neither a device ID nor a pattern: %v", err)
		}
		e := devices[key]
		e.check(at, errs)
	}
}

// check validates an entry and sets the defaults of its fault.
func (e *entry) check(at string, errs *sdk.FieldErrors) {
	if f := e.Fault; f != nil {
		f.Code, f.Message = or(f.Code, "mock-fault"), or(f.Message, "the scenario says so")
		f.Recovery, f.Reach = or(f.Recovery, "self"), or(f.Reach, "device")
		if e.Recovered {
			errs.Add(at, "fault and recovered exclude each other")
		}
		if _, ok := recovery(f.Recovery); !ok {
			errs.Add(at+".fault.recovery", "%q is no recovery: self, reset, reboot or replacement", f.Recovery)
		}
		if _, ok := reach(f.Reach); !ok {
			errs.Add(at+".fault.reach", "%q is no reach: new-holders, device or holders", f.Reach)
		}
	}
	e.Reset.check(at+".reset", errs)
}
