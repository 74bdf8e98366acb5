package cdi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"
)

// write writes the spec of the kind, of the least version that it needs. Each device is
// encoded by itself, so that the memory that this takes does not grow with them, and on one
// line, so that the file is no larger than the limits of edits, which do not count indents.
func (d definitions) write(w io.Writer, k kind) error {
	names := slices.Sorted(maps.Keys(d))
	frame, err := d.frame(k, names)
	if err != nil {
		return err
	}
	content, err := encodeSpec(frame)
	if err != nil {
		return err
	}
	head, tail, found := bytes.Cut(content, []byte(noDevices))
	if !found {
		return fmt.Errorf("encode CDI spec of %s: no place for devices", k)
	}
	var (
		device   specs.Device
		b        bytes.Buffer
		enc      = newEncoder(&b, "")
		separate = string(head) + `"devices": [`
	)
	for _, name := range names {
		if err := d.device(&device, k, name); err != nil {
			return err
		}
		device.ContainerEdits = without(device.ContainerEdits, frame.ContainerEdits)
		b.WriteString(separate + "\n  ")
		if err := enc.Encode(&device); err != nil {
			return fmt.Errorf("encode CDI device %s: %w", k.qualified(name), err)
		}
		b.Truncate(b.Len() - len("\n"))
		if _, err := b.WriteTo(w); err != nil {
			return err
		}
		separate = ","
	}
	_, err = w.Write(append([]byte("\n ]"), tail...))
	return err
}

// noDevices is how a spec without devices has them encoded.
const noDevices = `"devices": null`

// device makes it the one of that name.
func (d definitions) device(device *specs.Device, k kind, name string) error {
	edits, err := d[name].edits()
	if err != nil {
		return fmt.Errorf("definition %s: %w", k.qualified(name), err)
	}
	device.Name, device.ContainerEdits = name, *edits
	return nil
}

// frame is the spec without its devices: its version, and the edits that all devices share.
// A runtime applies those once to a container, for any number of its devices.
func (d definitions) frame(k kind, names []string) (*specs.Spec, error) {
	spec := &specs.Spec{Kind: k.String()}
	single := &specs.Spec{Kind: spec.Kind, Devices: make([]specs.Device, 1)}
	var (
		common specs.ContainerEdits
		// least is the smallest number of edits among devices with neither device nodes nor
		// groups: CDI refuses a device without edits of its own.
		least = math.MaxInt
	)
	for i, name := range names {
		// One by one: of several, the library looks at the nodes of the last only.
		device := &single.Devices[0]
		if err := d.device(device, k, name); err != nil {
			return nil, err
		}
		version, err := specs.MinimumRequiredVersion(single)
		if err != nil {
			return nil, fmt.Errorf("determine the CDI version of %s: %w", k.qualified(name), err)
		}
		if version != spec.Version && newer(version, spec.Version) {
			spec.Version = version
		}
		edits := &device.ContainerEdits
		if i == 0 {
			common = specs.ContainerEdits{Env: edits.Env, Mounts: edits.Mounts, Hooks: edits.Hooks}
		}
		common = shared(common, *edits)
		if len(edits.DeviceNodes)+len(edits.AdditionalGIDs) == 0 {
			least = min(least, shareable(*edits))
		}
	}
	if len(names) > 1 && shareable(common) < least {
		spec.ContainerEdits = common
	}
	return spec, nil
}

// newer compares versions of CDI, such as 0.5.0.
func newer(a, b string) bool {
	numbers := func(version string) (all []int) {
		for part := range strings.SplitSeq(version, ".") {
			n, _ := strconv.Atoi(part) // the library's own
			all = append(all, n)
		}
		return all
	}
	return slices.Compare(numbers(a), numbers(b)) > 0
}

func encodeSpec(spec any) ([]byte, error) {
	var b bytes.Buffer
	if err := newEncoder(&b, " ").Encode(spec); err != nil {
		return nil, fmt.Errorf("encode CDI spec: %w", err)
	}
	return b.Bytes(), nil
}

// newEncoder encodes as our files are written; without an indent, on one line.
func newEncoder(w io.Writer, indent string) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc
}
