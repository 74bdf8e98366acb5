package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/status/listing"
)

// onlyHardware is the error of fail and heal for devices that are not simulated.
const onlyHardware = "its health cannot be changed here: `fail` and `heal` work for mock backends with the setting scenarioFile"

// faultCode is the contract's syntax of a fault's code.
var faultCode = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}$`)

// fail makes a mock device unhealthy until heal: the given one, or the first healthy one.
func (s *session) fail(ctx context.Context, args []string) error {
	files, err := s.scenarioFiles()
	if err != nil {
		return err
	}
	all := s.agent.Devices()
	i := slices.IndexFunc(all, func(d listing.Device) bool { return files[d.Backend] != "" && d.Healthy })
	if len(args) > 0 {
		if i, err = find(all, files, args[0]); err != nil {
			return err
		}
	}
	if i < 0 {
		return errors.New("no device of a mock backend is healthy")
	}
	fault := map[string]any{"message": "`fail` of accelmux demo"}
	if len(args) > 1 {
		if fault["code"] = args[1]; !faultCode.MatchString(args[1]) {
			return fmt.Errorf("%q is not a fault code: at most 63 letters, digits and _ . -", args[1])
		}
	}
	return s.change(ctx, files[all[i].Backend], false, map[string]any{"fault": fault}, all[i])
}

// heal lets a mock device recover: the given one, or all with a fault in a scenario file.
func (s *session) heal(ctx context.Context, args []string) error {
	files, err := s.scenarioFiles()
	if err != nil {
		return err
	}
	all, faulted := s.agent.Devices(), map[string][]listing.Device{} // by backend
	if len(args) > 0 {
		i, err := find(all, files, args[0])
		if err != nil {
			return err
		}
		faulted[all[i].Backend] = all[i : i+1]
	} else {
		for backend, path := range files {
			_, entries, err := readScenario(path)
			if err != nil {
				return err
			}
			for _, d := range all {
				if entry, _ := entries[d.ID].(map[string]any); d.Backend == backend && entry["fault"] != nil {
					faulted[backend] = append(faulted[backend], d)
				}
			}
		}
	}
	if len(faulted) == 0 {
		return errors.New("no device has a fault in a scenario file")
	}
	for backend, devices := range faulted {
		if err := s.change(ctx, files[backend], true, map[string]any{"recovered": true}, devices...); err != nil {
			return err
		}
	}
	return nil
}

// find returns the index of the device with the ID, or with the ID of one of its replicas.
// Its backend must have a scenario file.
func find(all []listing.Device, files map[string]string, id string) (int, error) {
	id, _, _ = strings.Cut(id, "::")
	i := slices.IndexFunc(all, func(d listing.Device) bool { return d.ID == id })
	if i < 0 {
		return i, fmt.Errorf("no device %s; `devices` lists them", id)
	}
	if files[all[i].Backend] == "" {
		return i, fmt.Errorf("device %s of backend %s: %s", id, all[i].Backend, onlyHardware)
	}
	return i, nil
}

// scenarioFiles returns the scenario files of the configuration, by backend; an error if there
// are none.
func (s *session) scenarioFiles() (map[string]string, error) {
	profile, err := s.profile()
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, b := range profile.Backends {
		if path := scenarioFile(b); path != "" {
			files[b.Name] = path
		}
	}
	if len(files) == 0 {
		return nil, errors.New("no mock backend has a scenario file: `fail` and `heal` need the setting scenarioFile")
	}
	return files, nil
}

// scenarioFile returns the scenario file of a backend; "" if it is not a mock or has none.
func scenarioFile(b config.Backend) string {
	var settings struct{ ScenarioFile string }
	if b.Command != "accelmux-backend-mock" || json.Unmarshal(b.Settings, &settings) != nil {
		return ""
	}
	return settings.ScenarioFile
}

// change writes an entry for each device into the scenario, and waits until kubelet sees them
// all healthy, or all unhealthy.
func (s *session) change(ctx context.Context, path string, healthy bool, entry map[string]any, devices ...listing.Device) error {
	scenario, entries, err := readScenario(path)
	if err != nil {
		return err
	}
	for _, d := range devices {
		entries[d.ID] = entry
	}
	scenario["devices"] = entries
	text, err := yaml.Marshal(scenario)
	if err != nil {
		return err
	}
	if err := writeScenario(path, text); err != nil {
		return err
	}
	var waiting listing.Device
	err = await(ctx, func() (bool, error) {
		for _, waiting = range devices {
			if !s.seen(waiting, healthy) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait until kubelet sees the new health of %s: %w; `status` shows the agent's problems", waiting.ID, err)
	}
	for _, d := range devices {
		s.screen.say("device %s is %s", d.ID, healthText(healthy))
	}
	return nil
}

// seen reports whether the agent, and kubelet for each replica, shows this health of the
// device.
func (s *session) seen(device listing.Device, healthy bool) bool {
	same := func(d listing.Device) bool {
		return d.Backend == device.Backend && d.ID == device.ID && d.Healthy == healthy
	}
	if !slices.ContainsFunc(s.agent.Devices(), same) {
		return false
	}
	return !slices.ContainsFunc(s.kubelet.Devices(device.Resource), func(unit kubelettest.Device) bool {
		id, _, _ := strings.Cut(unit.ID, "::")
		return id == device.ID && unit.Healthy != healthy
	})
}

// readScenario reads a scenario file and its device entries; a missing file is empty.
func readScenario(path string) (scenario, devices map[string]any, err error) {
	text, err := os.ReadFile(path) //nolint:gosec // the user's own configuration names it
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("read the scenario file: %w", err)
	}
	scenario = map[string]any{}
	if err := yaml.Unmarshal(text, &scenario); err != nil {
		return nil, nil, fmt.Errorf("read the scenario file %s: %w", path, err)
	}
	if scenario == nil { // the document is empty
		scenario = map[string]any{}
	}
	devices, _ = scenario["devices"].(map[string]any)
	if devices == nil {
		devices = map[string]any{}
	}
	return scenario, devices, nil
}

// writeScenario replaces a scenario file by a rename, so that the backend never reads half of it.
func writeScenario(path string, text []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, text, 0o644); err != nil {
		return fmt.Errorf("write the scenario file: %w", err)
	}
	return os.Rename(temporary, path)
}
