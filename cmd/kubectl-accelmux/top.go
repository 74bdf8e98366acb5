package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/core/suggestion"
)

// load is what the backend of a device measures.
type load struct {
	Node string `json:"node"`
	listing.Measured
}

func newTopCommand(connection *connection) *cobra.Command {
	var sortBy string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the load, memory, temperature and power of the devices of all nodes",
		Long: `Shows the newest values of the devices. The agents measure only when values are requested, and for some
minutes after: the first values may take a second. Devices of other DRA drivers have none.`,
		Example: `  kubectl accelmux top --sort-by load
  kubectl accelmux top -l pool=training -w`,
		Args: arguments.None,
	}
	selection, out := selectionFlags(cmd), outputFlags(cmd, true)
	cmd.Flags().StringVar(&sortBy, "sort-by", listing.Orders()[0], "`order` of the devices: "+strings.Join(listing.Orders(), ", ")+"; the highest value first")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains(listing.Orders(), sortBy) {
			return fmt.Errorf("--sort-by %q is not possible%s", sortBy, suggestion.OrAll(sortBy, "use one of", listing.Orders()))
		}
		c, err := connection.open()
		if err != nil {
			return err
		}
		return out.run(cmd, func() (list, error) {
			names, err := c.readNames(cmd.Context())
			if err != nil {
				return list{}, err
			}
			var mu sync.Mutex
			all := []load{}
			err = c.each(cmd.Context(), selection, cmd.ErrOrStderr(), func(node string, a *agent) error {
				var telemetry listing.Telemetry
				if a == nil {
					return nil
				}
				err := c.ask(cmd.Context(), *a, "v1/telemetry", &telemetry)
				mu.Lock()
				defer mu.Unlock()
				for _, d := range telemetry.Devices {
					names.name(d.Holders)
					all = append(all, load{node, d})
				}
				return err
			})
			slices.SortStableFunc(all, func(a, b load) int {
				return cmp.Or(listing.Compare(a.Measured, b.Measured, sortBy), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.ID, b.ID))
			})
			return loadList(all), err
		})
	}
	return cmd
}

func loadList(all []load) list {
	l := list{items: all, columns: []metav1.TableColumnDefinition{
		column("NODE", 0), column("DEVICE", 0), column("HEALTH", 0), column("LOAD", 0), column("MEMORY", 0), column("TEMPERATURE", 0), column("POWER", 0),
		column("HELD BY", 0), column("RESOURCE", 1),
	}}
	for _, d := range all {
		l.names = append(l.names, d.Node+"/"+d.Backend+"/"+d.ID)
		l.rows = append(l.rows, []any{
			d.Node, d.Backend + "/" + d.ID, d.HealthText(), d.ValueText("utilization_ratio", 100, "%.0f%%"), d.MemoryText(),
			d.ValueText("temperature_celsius", 1, "%.0f °C"), d.ValueText("power_watts", 1, "%.0f W"), listing.HoldersText(d.Holders), d.Resource,
		})
	}
	return l
}
