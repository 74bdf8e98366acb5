package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/cmd/accelmux/validate"
	"github.com/accelmux/accelmux/core/dra/allocator"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/text"
)

// claimFlags are the flags of "topology explain" about claims.
type claimFlags struct{ manifest, inventory string }

// explain prints which devices the claims of the manifest get.
func (f *claimFlags) explain(cmd *cobra.Command, args []string, client *status.Client, format string) error {
	if len(args) > 0 {
		return fmt.Errorf("with --claim the claims name device classes, so leave out %s", args[0])
	}
	for _, other := range []string{"count", "resource", "must", "available"} {
		if cmd.Flags().Changed(other) {
			return fmt.Errorf("the claims of --claim have what is asked for: leave out --%s", other)
		}
	}
	objects, err := f.objects(cmd.InOrStdin())
	if err != nil {
		return fmt.Errorf("read %s: %s", f.manifest, text.OfDecoding(err))
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
	var read []byte
	if path == "-" && stdin != nil {
		read, err = io.ReadAll(stdin)
	} else {
		read, err = os.ReadFile(path)
	}
	if err != nil {
		return saved, fmt.Errorf("read the inventory %s: %w", path, err)
	}
	if path == "-" {
		path = validate.StandardInput
	}
	if err := yaml.UnmarshalStrict(read, &saved); err != nil || saved.Node.Name == "" {
		return saved, fmt.Errorf("%s is not what `accelmux topology -o inventory` of this version prints: %s", path, notInventory(read, err))
	}
	return saved, nil
}

// notInventory returns why a text is no inventory, of which err is the error.
func notInventory(saved []byte, err error) string {
	var object struct {
		Kind string `json:"kind"`
	}
	switch _ = yaml.Unmarshal(saved, &object); {
	case object.Kind != "":
		return "it is a " + object.Kind
	case err == nil:
		return "it has no node"
	}
	return text.OfDecoding(err)
}
