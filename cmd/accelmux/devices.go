package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/core/suggestion"
)

func newDevicesCommand() *cobra.Command {
	var wanted deviceFilter
	var screen *watching
	command, screen := withWatch(newAskCommand(&cobra.Command{
		Use:   "devices [ID...]",
		Short: "List the node's devices as the running agent knows them",
		Long: `Lists the node's devices as the running agent knows them. With IDs it prints all that is known
of each: every fault with what happened and what to do, attributes, capacities, who holds it. An ID is the
device's, or BACKEND/ID.

The table has one line for three or more partitions of a device that differ in nothing but their IDs;
-o wide has a line for each. -o json and yaml are lists of devices in every case.

With -w on a terminal, columns that do not fit are left out, in this order: ` + strings.Join(droppedDeviceColumns, ", ") + `.`,
		Example: `  accelmux devices
  accelmux devices --unhealthy
  accelmux devices GPU-9d2c4a1e-0f7b-4c55-8a0e-2f1d3b6c7e80
  accelmux devices --backend amd -o name
  accelmux devices -o json | jq '.[] | select(.healthy | not)'`,
	}, func(client *status.Client, ctx context.Context) ([]listing.Device, error) {
		devices, err := client.Devices(ctx)
		if err != nil {
			return nil, err
		}
		found, err := wanted.of(devices)
		if err == nil && len(found) == 0 && (wanted.backend != "" || wanted.resource != "") {
			report, err := client.Report(ctx)
			if err == nil {
				err = wanted.check(report)
			}
			return found, err
		}
		return found, err
	}, func(w *tabwriter.Writer, devices []listing.Device) {
		if len(wanted.ids) > 0 {
			deviceDetails(w, devices)
		} else {
			deviceTable(w, listing.FoldPartitions(devices, devicePart), screen.width)
		}
	}, textFormat[[]listing.Device]{"wide", wideTable}, textFormat[[]listing.Device]{"name", deviceNames}))
	command.Args = cobra.ArbitraryArgs
	command.PreRun = func(_ *cobra.Command, args []string) { wanted.ids = args }
	flags := command.Flags()
	flags.StringVar(&wanted.backend, "backend", "", "only devices of this `backend`")
	flags.StringVar(&wanted.resource, "resource", "", "only devices of this `resource`")
	flags.BoolVar(&wanted.unhealthy, "unhealthy", false, "only unhealthy devices")
	return command
}

// deviceFilter is which devices are asked for; the zero value is all.
type deviceFilter struct {
	ids               []string
	backend, resource string
	unhealthy         bool
}

// of returns those among the devices. It is an error if one of the IDs is not there.
func (f deviceFilter) of(devices []listing.Device) ([]listing.Device, error) {
	var known []string
	isAt := func(id string, d listing.Device) bool { return id == d.ID || id == d.Backend+"/"+d.ID }
	for _, d := range devices {
		known = append(known, d.ID)
	}
	for _, id := range f.ids {
		if !slices.ContainsFunc(devices, func(d listing.Device) bool { return isAt(id, d) }) {
			return nil, fmt.Errorf("there is no device %q on this node%s", id, suggestion.DidYouMean(id, known))
		}
	}
	found := []listing.Device{}
	for _, d := range devices {
		asked := len(f.ids) == 0 || slices.ContainsFunc(f.ids, func(id string) bool { return isAt(id, d) })
		if asked && (f.backend == "" || f.backend == d.Backend) && (f.resource == "" || f.resource == d.Resource) && (!f.unhealthy || !d.Healthy) {
			found = append(found, d)
		}
	}
	return found, nil
}

// check returns an error if the node has no such backend or resource.
func (f deviceFilter) check(report status.Report) error {
	var backends, resources []string
	for _, b := range report.Backends {
		backends = append(backends, b.Name)
	}
	for _, r := range report.Resources {
		resources = append(resources, r.Name)
	}
	for _, named := range []struct {
		what, name string
		all        []string
	}{{"backend", f.backend, backends}, {"resource", f.resource, resources}} {
		if named.name != "" && !slices.Contains(named.all, named.name) {
			return fmt.Errorf("there is no %s %q on this node%s", named.what, named.name, suggestion.OrAll(named.name, "there are", named.all))
		}
	}
	return nil
}

var (
	deviceColumns = []string{"BACKEND", "DEVICE", "CLASS", "MODEL", "NUMA", "RESOURCE", "HEALTH", "HELD BY"}
	// droppedDeviceColumns are those that a narrow screen does without, the first one first.
	droppedDeviceColumns = []string{"NUMA", "CLASS", "MODEL", "BACKEND", "RESOURCE", "HELD BY"}
)

// deviceTable prints the columns that fit into width characters; all of them if it is 0.
func deviceTable(w *tabwriter.Writer, devices []listing.Device, width int) {
	rows := make([][]any, len(devices))
	for i, d := range devices {
		rows[i] = deviceCells(d)
	}
	fittingTable(w, width, deviceColumns, droppedDeviceColumns, rows)
}

func deviceCells(d listing.Device) []any {
	return []any{d.Backend, d.ID, d.Class, d.AttributeText("model"), listing.NUMAText(d.NUMANodes), d.ResourceText(), d.HealthText(), listing.HoldersText(d.Holders)}
}

func devicePart(d *listing.Device) (parent string, id *string, cells []any) {
	other := *d
	other.ID = ""
	return d.Parent, &d.ID, deviceCells(other)
}

func wideTable(w *tabwriter.Writer, devices []listing.Device) {
	row(w, "BACKEND", "DEVICE", "CLASS", "MODEL", "NUMA", "RESOURCE", "HEALTH", "HELD BY", "PCI", "PARENT", "CDI", "WHY")
	for _, d := range devices {
		row(w, append(deviceCells(d), d.PCIBusID, d.Parent, d.CDI, d.FaultText())...)
	}
}

func deviceNames(w *tabwriter.Writer, devices []listing.Device) {
	for _, d := range devices {
		fmt.Fprintln(w, d.Backend+"/"+d.ID)
	}
}

// deviceDetails prints a paragraph for each device.
func deviceDetails(w *tabwriter.Writer, devices []listing.Device) {
	for i, d := range devices {
		if i > 0 {
			fmt.Fprintln(w)
		}
		line := func(name string, value any) {
			if text := fmt.Sprint(value); text != "" {
				fmt.Fprintf(w, "  %s:\t%s\n", name, text)
			}
		}
		fmt.Fprintf(w, "%s/%s\n", d.Backend, d.ID)
		line("class", d.Class)
		line("resource", cmp.Or(d.ResourceText(), "none: no selector matches it"))
		line("health", d.HealthText())
		for _, f := range d.Faults {
			line("fault", fmt.Sprintf("%s, for %s: %s", f.Code, age(f.Since), f.Message))
		}
		line("held by", cmp.Or(listing.HoldersText(d.Holders), "no container"))
		line("NUMA", listing.NUMAText(d.NUMANodes))
		line("PCI", d.PCIBusID)
		line("part of", d.Parent)
		line("made for claim", d.MadeFor)
		line("CDI", d.CDI)
		for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
			line(name, d.Attributes[name])
		}
		for _, name := range slices.Sorted(maps.Keys(d.Capacities)) {
			line(name, resource.NewQuantity(d.Capacities[name], resource.BinarySI))
		}
	}
}
