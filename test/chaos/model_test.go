package main

import "testing"

// Verifies what the model takes for true, case by case.
func TestModel(t *testing.T) {
	held := func(resource, unit string) []hold { return []hold{{"pod-1", resource, unit}} }
	for name, c := range map[string]struct {
		set            func(*model)
		holds          []hold
		resource, unit string
		want           health
	}{
		"sound":                {func(*model) {}, nil, gpuName, "a-0", healthy},
		"held as it is":        {func(*model) {}, held(gpuName, "a-0"), gpuName, "a-0", healthy},
		"faulty":               {func(m *model) { m.alpha.devices[0].entry.fault = bySelf }, nil, gpuName, "a-0", unhealthy},
		"over by itself":       {func(m *model) { m.alpha.devices[0].faults[bySelf] = true }, nil, gpuName, "a-0", healthy},
		"needs a reboot":       {func(m *model) { m.alpha.devices[0].faults[byReboot] = true }, nil, gpuName, "a-0", unhealthy},
		"reset":                {func(m *model) { m.alpha.devices[0].faults[byReset] = true }, nil, gpuName, "a-0", healthy},
		"no reset while held":  {func(m *model) { m.alpha.devices[0].faults[byReset] = true }, held(gpuName, "a-0"), gpuName, "a-0", unhealthy},
		"group is held":        {func(m *model) { m.beta.devices[0].faults[byReset] = true }, held(partName, "b-0-p1"), partName, "b-0-p0", unhealthy},
		"group is being reset": {func(m *model) { m.beta.devices[0].entry.fault = byReset }, nil, partName, "b-0-p1", healthy | unhealthy},
		"group is to be reset": {func(m *model) { m.beta.devices[0].faults[byReset] = true }, held(partName, "b-0-p0"), partName, "b-0-p1", healthy | unhealthy},
		"other group":          {func(m *model) { m.beta.devices[0].entry.fault = byReset }, nil, partName, "b-1-p0", healthy},
		"forgotten, perhaps":   {func(m *model) { m.alpha.devices[0].faults[byReboot] = true; m.forget() }, nil, gpuName, "a-0", healthy | unhealthy},
		"forgotten while away, perhaps": {func(m *model) {
			d := m.alpha.devices[0]
			d.entry, d.faults[byReboot] = entry{fault: byReboot, unplugged: true}, true
			m.forget()
			d.entry = entry{}
		}, nil, gpuName, "a-0", healthy | unhealthy},
		"unplugged":               {func(m *model) { m.alpha.devices[0].entry.unplugged = true }, nil, gpuName, "a-0", absent},
		"unplugged and held":      {func(m *model) { m.alpha.devices[0].entry.unplugged = true }, held(gpuName, "a-0"), gpuName, "a-0", absent | unhealthy},
		"held by another name":    {func(m *model) { m.name = bigName }, held(gpuName, "a-0"), bigName, "a-0", unhealthy},
		"held, now replicated":    {func(m *model) { m.replicas = 2 }, held(gpuName, "a-0"), gpuName, "a-0::1", unhealthy},
		"replicas among replicas": {func(m *model) { m.replicas, m.name = 2, bigName }, held(gpuName, "a-0::0"), bigName, "a-0::0", healthy},
		"gone in a moment":        {func(m *model) { m.beta.crash = true }, nil, partName, "b-0-p0", unhealthy | absent},
		"held over":               {func(m *model) { m.alpha.missing = true }, nil, gpuName, "a-0", healthy | unhealthy | absent},
		"defined twice":           {func(m *model) { m.foreign = "a-0" }, nil, gpuName, "a-0", unhealthy | absent},
		"disk full, not by CDI":   {func(m *model) { m.diskFull = true }, nil, steadyName, "c-0", healthy},
		"disk full":               {func(m *model) { m.diskFull = true }, nil, gpuName, "a-0", healthy | unhealthy | absent},
		"disk full, faulty":       {func(m *model) { m.diskFull = true; m.alpha.devices[0].entry.fault = bySelf }, nil, gpuName, "a-0", unhealthy | absent},
		"more than are set":       {func(m *model) { m.units = 1 }, nil, gpuName, "a-1", absent},
	} {
		m := newModel()
		c.set(m)
		if got := m.expected(c.holds)[c.resource][c.unit]; got != c.want {
			t.Errorf("%s: %s may be %v, want %v", name, c.unit, got, c.want)
		}
	}
}

// Verifies when a device has no fault left for certain.
func TestMended(t *testing.T) {
	held := []hold{{"pod-1", partName, "b-0-p1"}}
	for name, c := range map[string]struct {
		set   func(*model, *device)
		holds []hold
		want  bool
	}{
		"sound":                   {func(*model, *device) {}, nil, true},
		"faulty":                  {func(_ *model, d *device) { d.entry.fault = byReset }, nil, false},
		"reset, unless held":      {func(_ *model, d *device) { d.faults[byReset] = true }, nil, true},
		"held":                    {func(_ *model, d *device) { d.faults[byReset] = true }, held, false},
		"with a full disk":        {func(m *model, d *device) { d.faults[byReset], m.diskFull = true, true }, nil, true},
		"without kubelet":         {func(m *model, _ *device) { m.kubelet = false }, nil, false},
		"recovered without it":    {func(m *model, d *device) { m.kubelet, d.entry.recovered = false, true }, nil, true},
		"forgotten, perhaps":      {func(_ *model, d *device) { d.faults[byReboot], d.hazy = true, true }, nil, false},
		"waits for the next boot": {func(_ *model, d *device) { d.faults[byReboot] = true }, nil, false},
	} {
		m := newModel()
		c.set(m, m.beta.devices[0])
		if got := m.mended(m.beta, m.beta.devices[0], c.holds); got != c.want {
			t.Errorf("%s: mended %v, want %v", name, got, c.want)
		}
	}
}
