package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// encode returns the spec file of the definitions, which are not empty. It asks for the
// oldest version of CDI that it needs, because runtimes refuse newer ones.
func (d definitions) encode(k kind) ([]byte, error) {
	spec := &specs.Spec{Kind: k.String()}
	var newest semver.Version
	for i, name := range slices.Sorted(maps.Keys(d)) {
		edits, err := decodeEdits(d[name])
		if err != nil {
			return nil, err
		}
		spec.Devices = append(spec.Devices, specs.Device{Name: name, ContainerEdits: *edits})
		// One by one: of several devices, the library checks the nodes of the last only.
		version, err := specs.MinimumRequiredVersion(&specs.Spec{Kind: spec.Kind, Devices: spec.Devices[i : i+1]})
		if err != nil {
			return nil, fmt.Errorf("determine the CDI version of %s: %w", k.qualified(name), err)
		}
		if parsed, err := semver.Parse(version); err != nil {
			return nil, fmt.Errorf("determine the CDI version of %s: %w", k.qualified(name), err)
		} else if parsed.GT(newest) {
			newest, spec.Version = parsed, version
		}
	}
	share(spec)
	content, err := encodeJSON(spec)
	if err != nil {
		return nil, fmt.Errorf("encode CDI spec: %w", err)
	}
	return content, nil
}

// decodeSpec is the inverse of encode. It checks names and edits as a runtime does.
func decodeSpec(content []byte) (kind string, defs definitions, err error) {
	var spec specs.Spec
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&spec); err != nil {
		return "", nil, err
	}
	if len(spec.Devices) == 0 {
		return "", nil, errors.New("it has no devices")
	}
	defs = make(definitions, len(spec.Devices))
	for i := range spec.Devices {
		device := &spec.Devices[i]
		edits := compose(&spec.ContainerEdits, &device.ContainerEdits)
		if err := errors.Join(parser.ValidateDeviceName(device.Name), checkEdits(edits)); err != nil {
			return "", nil, err
		}
		if defs[device.Name], err = encodeEdits(edits); err != nil {
			return "", nil, err
		}
	}
	return spec.Kind, defs, nil
}

// share moves the variables, mounts and hooks that all devices have to the spec's own edits,
// which a runtime applies once to a container. Device nodes and groups stay with the devices.
// The edits of a name are the spec's own and the device's together, so no name changes its
// meaning. compose reverses it.
func share(spec *specs.Spec) {
	if len(spec.Devices) < 2 {
		return
	}
	first := spec.Devices[0].ContainerEdits
	common := specs.ContainerEdits{Env: first.Env, Mounts: first.Mounts, Hooks: first.Hooks}
	for _, device := range spec.Devices[1:] {
		common = shared(common, device.ContainerEdits)
	}
	for _, device := range spec.Devices {
		e := device.ContainerEdits
		if len(e.DeviceNodes)+len(e.AdditionalGIDs) == 0 && shareable(e) == shareable(common) {
			return // CDI refuses a device without edits of its own
		}
	}
	spec.ContainerEdits = common
	for i := range spec.Devices {
		e := &spec.Devices[i].ContainerEdits
		e.Env, e.Mounts = without(e.Env, common.Env, envName), without(e.Mounts, common.Mounts, containerPath)
		e.Hooks = e.Hooks[len(common.Hooks):]
	}
}

// shared returns the variables and mounts that both have, and the hooks with which both
// begin: hooks run in their order.
func shared(a, b specs.ContainerEdits) specs.ContainerEdits {
	n := 0
	for n < min(len(a.Hooks), len(b.Hooks)) && reflect.DeepEqual(a.Hooks[n], b.Hooks[n]) {
		n++
	}
	return specs.ContainerEdits{
		Env:    slices.DeleteFunc(slices.Clone(a.Env), func(v string) bool { return !contains(b.Env, v, envName) }),
		Mounts: slices.DeleteFunc(slices.Clone(a.Mounts), func(m *specs.Mount) bool { return !contains(b.Mounts, m, containerPath) }),
		Hooks:  a.Hooks[:n],
	}
}

// shareable returns the number of edits that could be shared.
func shareable(e specs.ContainerEdits) int { return len(e.Env) + len(e.Mounts) + len(e.Hooks) }

// without returns the values of a list that are not in common.
func without[T any](list, common []T, id func(T) string) []T {
	return slices.DeleteFunc(list, func(v T) bool { return contains(common, v, id) })
}

// contains reports whether a list that is sorted by id has the value.
func contains[T any](list []T, value T, id func(T) string) bool {
	i, found := slices.BinarySearchFunc(list, id(value), func(v T, target string) int { return strings.Compare(id(v), target) })
	return found && reflect.DeepEqual(list[i], value)
}

// encodeEdits returns the canonical text of edits: equal text, equal edits.
func encodeEdits(e *specs.ContainerEdits) (string, error) {
	text, err := encodeJSON(e)
	if err != nil {
		return "", fmt.Errorf("encode container edits: %w", err)
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}

func decodeEdits(text string) (*specs.ContainerEdits, error) {
	e := &specs.ContainerEdits{}
	if err := json.Unmarshal([]byte(text), e); err != nil {
		return nil, fmt.Errorf("decode container edits: %w", err)
	}
	return e, nil
}

// encodeJSON encodes on one line, as the CDI library does: the file is no larger than the
// limits of edits, which do not count indents.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
