package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/cmd/accelmux/validate"
	"github.com/accelmux/accelmux/core/dra/allocator"
	"github.com/accelmux/accelmux/core/status"
)

// claimFlags are the flags of "topology explain" about claims.
type claimFlags struct{ manifest, inventory string }

// explain prints which devices the claims of the manifest get.
func (f *claimFlags) explain(cmd *cobra.Command, args []string, client *status.Client, format string) error {
	switch {
	case f.manifest == "":
		return errors.New("--inventory is for claims: set --claim to the file with them")
	case len(args) > 0:
		return fmt.Errorf("with --claim the claims name device classes, so leave out %s", args[0])
	}
	for _, other := range []string{"count", "resource", "must", "available"} {
		if cmd.Flags().Changed(other) {
			return fmt.Errorf("the claims of --claim have what is asked for: leave out --%s", other)
		}
	}
	objects, err := f.objects(cmd.InOrStdin())
	if err != nil {
		return fmt.Errorf("read %s: %w", f.manifest, err)
	}
	inventory, err := f.published(cmd.Context(), client)
	if err != nil {
		return err
	}
	all, err := allocator.Explain(cmd.Context(), inventory, objects)
	if err != nil {
		return err
	}
	return printAs(cmd.OutOrStdout(), format, all, func(w *tabwriter.Writer) { allocator.Write(w, all) })
}

// objects reads the manifest.
func (f *claimFlags) objects(stdin io.Reader) (allocator.Objects, error) {
	if f.manifest == "-" {
		return allocator.Read(stdin)
	}
	file, err := os.Open(f.manifest)
	if err != nil {
		return allocator.Objects{}, err
	}
	defer func() { _ = file.Close() }() // read only: nothing to lose
	return allocator.Read(file)
}

// published returns what the agent publishes, or an inventory file.
func (f *claimFlags) published(ctx context.Context, client *status.Client) (inventory allocator.Inventory, err error) {
	if f.inventory != "" {
		saved, err := readInventory(f.inventory, nil)
		return saved.Inventory, err
	}
	if inventory.Resources, err = client.Topology(ctx, ""); err != nil {
		return inventory, err
	}
	inventory.Slices, err = client.Slices(ctx)
	return inventory, err
}

// inventoryFile is what topology -o inventory prints, and what explain --inventory and validate --against read.
type inventoryFile struct {
	allocator.Inventory
	Node validate.Node `json:"node"`
}

// readInventory reads such a file, or standard input for - if stdin is not nil.
func readInventory(path string, stdin io.Reader) (saved inventoryFile, err error) {
	var text []byte
	if path == "-" && stdin != nil {
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return saved, fmt.Errorf("read the inventory %s: %w", path, err)
	}
	if err := yaml.UnmarshalStrict(text, &saved); err != nil {
		return saved, fmt.Errorf("the inventory %s is not what `accelmux topology -o inventory` prints: %w", path, err)
	}
	return saved, nil
}
