package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/core/suggestion"
)

func newDevicesCommand(connection *connection) *cobra.Command {
	var unhealthy bool
	var resource string
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List the devices of all nodes, their health and who has them",
		Long: `Lists the devices of all nodes: those that accelmux' agents report, and those that other DRA drivers
publish in ResourceSlices. A pod or claim that you may not list is shown without its name.`,
		Example: `  kubectl accelmux devices --unhealthy
  kubectl accelmux devices --node gpu-1 -o wide
  kubectl accelmux devices -o jsonpath='{range .items[?(@.healthy==false)]}{.node} {.id}{"\n"}{end}'`,
		Args: arguments.None,
	}
	selection, out := selectionFlags(cmd), outputFlags(cmd, false)
	cmd.Flags().BoolVar(&unhealthy, "unhealthy", false, "only unhealthy devices")
	cmd.Flags().StringVar(&resource, "resource", "", "only devices of this `resource`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := connection.open()
		if err != nil {
			return err
		}
		return out.run(cmd, func() (list, error) {
			devices, err := c.devices(cmd.Context(), selection, cmd.ErrOrStderr())
			resources := resourcesOf(devices)
			devices = slices.DeleteFunc(devices, func(d Device) bool { return unhealthy && d.Healthy || resource != "" && d.Resource != resource })
			if err == nil && resource != "" && !slices.Contains(resources, resource) {
				err = fmt.Errorf("no device is of the resource %q%s", resource, suggestion.OrAll(resource, "there are", resources))
			}
			return deviceList(devices), err
		})
	}
	return cmd
}

// resourcesOf returns the resources of devices, each once, sorted.
func resourcesOf(devices []Device) (names []string) {
	for _, d := range devices {
		if d.Resource != "" {
			names = append(names, d.Resource)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func deviceList(devices []Device) list {
	l := list{items: devices, columns: []metav1.TableColumnDefinition{
		column("NODE", 0), column("DEVICE", 0), column("CLASS", 0), column("MODEL", 0), column("RESOURCE", 0), column("HEALTH", 0), column("HELD BY", 0),
		column("NUMA", 1), column("PCI", 1), column("PARENT", 1), column("WHY", 1),
	}}
	for _, d := range devices {
		l.names = append(l.names, d.Node+"/"+d.Backend+"/"+d.ID)
	}
	for _, d := range listing.FoldPartitions(slices.Clone(devices), devicePart) {
		l.rows = append(l.rows, deviceCells(d))
	}
	return l
}

func devicePart(d *Device) (parent string, id *string, cells []any) {
	other := *d
	other.ID = ""
	if d.Parent != "" {
		parent = d.Node + "/" + d.Parent
	}
	return parent, &d.ID, deviceCells(other)
}

func deviceCells(d Device) []any {
	return []any{
		d.Node, fmt.Sprintf("%s/%s", d.Backend, d.ID), d.Class, d.AttributeText("model"), d.ResourceText(), d.HealthText(), listing.HoldersText(d.Holders),
		listing.NUMAText(d.NUMANodes), d.PCIBusID, d.Parent, d.FaultText(),
	}
}
