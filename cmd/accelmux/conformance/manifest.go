package conformance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/sandbox"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// readManifest reads the manifest beside the program, and what it comes to for the settings: these are merged from then on.
func (c *check) readManifest(ctx context.Context) error {
	program, err := plug.Find(filepath.Dir(c.Program), filepath.Base(c.Program), plug.Pins{})
	if err != nil {
		return err
	}
	defer program.Close()
	m := program.Manifest
	resolved, err := plug.Resolve(ctx, m, c.Settings)
	var fields manifest.FieldErrors
	switch {
	case errors.As(err, &fields):
		return fmt.Errorf("the manifest %s.yaml refuses the settings %s: %w; give settings that it accepts", c.Program, c.Settings, err)
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return fmt.Errorf("the manifest %s.yaml cannot be used: %w", c.Program, err)
	}
	c.manifest, c.rights, c.Settings = m, resolved.Rights, resolved.Settings
	c.described = m.Description
	c.described.Attributes, c.described.Edits, c.described.Writes = m.Attributes(c.Settings), c.rights.Containers, c.rights.Process.Write
	c.described.Look, c.described.Limits = m.Look(c.Settings), m.Limits(c.Settings)
	c.given, _ = sandbox.Policy{AcceptDeclared: true, Allowed: c.Allowed}.Give(c.rights.Process)
	return nil
}

// identifies checks the name and the version in an answer of Configure.
func (c *check) identifies(answer *backendv1.ConfigureResponse) {
	if name, version := answer.GetName(), answer.GetVersion(); name != c.described.Name || version != c.described.Version {
		c.fail(identity, "it answers with %q %q; the manifest has %q %q", name, version, c.described.Name, c.described.Version)
		return
	}
	c.pass(identity)
}

// use adds what edits contain to what was used of the manifest. The caller holds c.listing.
func (c *check) use(all ...*backendv1.ContainerEdits) {
	for _, edits := range all {
		c.used = c.used.Join(inventory.ScopeOf(edits))
	}
}
