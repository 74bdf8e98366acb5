package discover

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/pcibus"
)

// names are the names of resources that users know, by backend and class.
var names = map[string]map[string]string{
	"nvidia": {"gpu": "nvidia.com/gpu", "mig": "nvidia.com/mig-{profile}"},
	"amd":    {"gpu": "amd.com/gpu", "partition": "amd.com/{computePartition}_{memoryPartition}"},
	"fpga":   {"af": "fpga.intel.com/{functionName}", "region": "fpga.intel.com/{regionName}", "card": "amd.com/{platformName}"},
}

const (
	// maxReplicas is how many containers may share a device, shares the capacity that says how
	// many may.
	maxReplicas, shares = 1000, "shares"
	// maxShown is how many devices a comment names.
	maxShown = 4
)

// Write returns the result as a node configuration with comments. The error says that nothing
// fits this machine.
func (r *Result) Write() ([]byte, error) {
	var out, resources strings.Builder
	line := func(to *strings.Builder, format string, args ...any) { fmt.Fprintf(to, format+"\n", args...) }
	notes := r.notes()
	if len(r.Fitting) == 0 {
		return nil, errors.New(strings.Join(append([]string{"no backend fits this machine"}, notes...), "\n"))
	}
	line(&out, "%s", config.Modeline)
	line(&out, "# What accelmux discover found on this machine. Take out what containers are not to get,")
	line(&out, "# give resources the names that pods ask for, and check it: accelmux validate FILE")
	for _, note := range notes {
		line(&out, "%s", comment("", note))
	}
	line(&out, "apiVersion: %s\nkind: %s\nprofiles:\n  - name: %s\n    backends:", config.APIVersion, config.Kind, config.DefaultProfile)
	for _, b := range r.Fitting {
		b.write(func(format string, args ...any) { line(&out, format, args...) })
		b.writeResources(func(format string, args ...any) { line(&resources, format, args...) })
	}
	text := []byte(out.String() + "    resources:\n" + resources.String())
	if _, err := config.Parse("result", text); err != nil {
		return nil, fmt.Errorf("the node configuration is not valid: %w\n%s", err, text)
	}
	return text, nil
}

// notes are what the configuration does not have.
func (r *Result) notes() []string {
	var notes []string
	if len(r.Unserved) > 0 {
		notes = append(notes, "", "Hardware that a backend would list in another state:")
		for _, problem := range r.Unserved {
			notes = append(notes, "  "+problem)
		}
	}
	if len(r.Hindered) > 0 {
		notes = append(notes, "", "Problems of presets that list no devices here:")
		for _, problem := range r.Hindered {
			notes = append(notes, "  "+problem)
		}
	}
	if len(r.Uncovered) > 0 {
		notes = append(notes, "", "Accelerators that nothing here covers; docs/device.md explains how to describe a device:")
		for _, a := range r.Uncovered {
			note := "  " + describe(a)
			if backend := a.Backend(); backend != "" {
				note += ", for which the program of the backend " + backend + " could not be asked"
			}
			notes = append(notes, note)
		}
	}
	if len(r.Idle) > 0 {
		notes = append(notes, "", "Backends that list no devices here: "+strings.Join(r.Idle, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Failed)) {
		notes = append(notes, "", "The backend "+name+" could not be asked: "+r.Failed[name])
	}
	return notes
}

func describe(a pcibus.Accelerator) string {
	driver := "no driver"
	if a.Driver != "" {
		driver = "driver " + a.Driver
	}
	return fmt.Sprintf("%s  %s:%s  class %s  %s", a.Address, a.Vendor, a.Device, a.Class, driver)
}

// comment is a text in a comment.
func comment(indent, text string) string {
	return strings.TrimRight(indent+"# "+strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' }), " "), " ")
}

// write writes the backend.
func (b Backend) write(line func(string, ...any)) {
	for _, a := range b.Unlisted {
		line("%s", comment("      ", "The backend "+b.Name+" does not list "+describe(a)))
	}
	for _, p := range b.Problems {
		what := p.Message
		if p.Device != "" {
			what = p.Device + ": " + what
		}
		line("%s", comment("      ", what))
	}
	line("      - name: %s", b.Name)
	if len(b.Presets) > 0 {
		line("        settings:\n          presets:")
		for _, preset := range b.Presets {
			line("            - %s", preset)
		}
	}
	if config.DefaultAcceptance(config.CommandPrefix+b.Name) == config.RefuseDeclared {
		line("        # Its process and containers get nothing of what its manifest has before that is accepted; `accelmux backends %s` prints it.", b.Name)
		line("        # allow: {declared: accept}")
	}
}

// writeResources writes a resource for each class that has devices, or could have.
func (b Backend) writeResources(line func(string, ...any)) {
	for i, class := range b.Description.Classes {
		devices := ofClass(b.Devices, class)
		name := names[b.Name][class]
		switch {
		case len(devices) > 0:
			line("%s", comment("      ", summary(devices)))
			if twice := alsoIn(devices, b.Devices, b.Description.Classes[:i]); len(twice) > 0 {
				line("%s", comment("      ", fmt.Sprintf("Two containers could get these, as a resource above has them, too (let selectors leave them out of one): %s", ids(twice))))
			}
		case len(b.Devices) > 0 || name == "":
			continue
		default:
			line("%s", comment("      ", "When the backend lists devices:"))
		}
		if name == "" {
			name = b.Name + ".accelmux.io/" + class
		}
		line("      - name: %s\n        backend: %s\n        class: %s", strings.TrimSpace(scalar(name)), b.Name, class)
		if n := replicas(devices); n > 1 {
			line("        replicas: %d", n)
		}
	}
}

func scalar(text string) string {
	out, err := yaml.Marshal(text)
	if err != nil {
		return text // never
	}
	return string(out)
}

// summary counts devices, names the first, and says what is wrong with one.
func summary(devices []*inventory.Device) string {
	sick := ""
	for _, d := range devices {
		if d.Health.State != inventory.StateHealthy && sick == "" {
			sick = fmt.Sprintf("; %s is %s: %s", d.ID, d.Health.State, d.Health.Message)
		}
	}
	if len(devices) == 1 {
		return "1 device: " + devices[0].ID + sick
	}
	return fmt.Sprintf("%d devices: %s", len(devices), ids(devices)) + sick
}

// ids names the first devices.
func ids(devices []*inventory.Device) string {
	var shown []string
	for _, d := range devices[:min(len(devices), maxShown)] {
		shown = append(shown, d.ID)
	}
	text := strings.Join(shown, ", ")
	if more := len(devices) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// replicas is how many containers may share each of the devices.
func replicas(devices []*inventory.Device) int {
	n := int64(maxReplicas)
	for _, d := range devices {
		capacity, _ := d.Capacities.Get(shares)
		n = min(n, capacity)
	}
	if len(devices) == 0 {
		return 0
	}
	return int(n)
}
