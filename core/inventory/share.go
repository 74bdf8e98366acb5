package inventory

import "slices"

// maxTexts bounds how many texts of a report are remembered for others that are equal:
// those that repeat are among the first.
const maxTexts = 4096

// sharing has what devices of a report have in common kept once: there may be 4,096 of
// them, and most differ from the one before in little more than their ID and the path of
// their node.
type sharing struct {
	texts      map[string]string
	attributes map[Attribute]Attribute
	// latest is the latest device of each class.
	latest map[string]*Device
}

func newSharing() sharing {
	return sharing{texts: map[string]string{}, attributes: map[Attribute]Attribute{}, latest: map[string]*Device{}}
}

// device has the device refer to what is known already.
func (s *sharing) device(d *Device) {
	s.texts[d.ID] = d.ID // what is called after the device, in its own report only
	d.Parent, d.ResetGroup = s.text(d.Parent), s.text(d.ResetGroup)
	d.Health.Code, d.Health.Message = s.text(d.Health.Code), s.text(d.Health.Message)
	for i, a := range d.Attributes {
		d.Attributes[i] = NamedValue[Attribute]{s.text(a.Name), remember(s.attributes, a.Value)}
	}
	for i, c := range d.Capacities {
		d.Capacities[i].Name = s.text(c.Name)
	}
	s.edits(&d.Edits)
	delete(s.texts, d.ID)
	if other := s.latest[d.Class]; other != nil {
		d.shareWith(other)
	}
	s.latest[d.Class] = d
}

func (s *sharing) edits(e *Edits) {
	for _, values := range []ByName[string]{e.Env, e.EnvSeparators} {
		for i, v := range values {
			values[i] = NamedValue[string]{s.text(v.Name), s.text(v.Value)}
		}
	}
	for i, n := range e.DeviceNodes {
		e.DeviceNodes[i] = DeviceNode{Path: s.text(n.Path), HostPath: s.text(n.HostPath), Permissions: s.text(n.Permissions)}
	}
	for i := range e.Mounts {
		m := &e.Mounts[i]
		m.HostPath, m.ContainerPath = s.text(m.HostPath), s.text(m.ContainerPath)
		s.all(m.Options)
	}
	for i := range e.Hooks {
		h := &e.Hooks[i]
		h.Name, h.Path = s.text(h.Name), s.text(h.Path)
		s.all(h.Args)
		s.all(h.Env)
	}
}

func (s *sharing) all(texts []string) {
	for i, text := range texts {
		texts[i] = s.text(text)
	}
}

func (s *sharing) text(text string) string {
	if text == "" {
		return ""
	}
	return remember(s.texts, text)
}

// remember is the first of those that are equal.
func remember[T comparable](known map[T]T, value T) T {
	if first, ok := known[value]; ok {
		return first
	}
	if len(known) < maxTexts {
		known[value] = value
	}
	return value
}

// shareWith takes over the parts of another device that are equal.
func (d *Device) shareWith(o *Device) {
	shareSlice(&d.NUMANodes, o.NUMANodes)
	shareSlice(&d.Attributes, o.Attributes)
	shareSlice(&d.Capacities, o.Capacities)
	shareSlice(&d.Links, o.Links)
	e, of := &d.Edits, &o.Edits
	shareSlice(&e.Env, of.Env)
	shareSlice(&e.EnvSeparators, of.EnvSeparators)
	shareSlice(&e.DeviceNodes, of.DeviceNodes)
	shareSlice(&e.AdditionalGIDs, of.AdditionalGIDs)
	if slices.EqualFunc(e.Mounts, of.Mounts, equalMount) {
		e.Mounts = of.Mounts
	}
	if slices.EqualFunc(e.Hooks, of.Hooks, equalOCIHook) {
		e.Hooks = of.Hooks
	}
}

func shareSlice[S ~[]E, E comparable](mine *S, others S) {
	if slices.Equal(*mine, others) {
		*mine = others
	}
}
