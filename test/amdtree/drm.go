package amdtree

import (
	"fmt"
	"path"
	"slices"

	"github.com/accelmux/accelmux/backends/pci"
)

const (
	// drmMajor is the major number of DRM's device nodes.
	drmMajor = 226
	// firstRender is the first render minor; there are 64 of them, and 64 of cards.
	firstRender, drmMinors = 128, 64
)

// others makes the cards of other drivers: BMCs without a render node, and render
// nodes of something that is no AMD GPU.
func others(w *writer, m Machine) {
	for i := range m.Cards {
		at := pci.Address{Bus: 0x01, Device: uint8(i) & 0x1f}
		dir := "sys/devices/pci0000:00/" + at.String()
		w.pciFiles(dir, 0x1a03, 0x2000, 0x41, 0x030000, 0, at)
		w.minor(dir, "card", i)
		w.Dir(fmt.Sprintf("%s/drm/card%d/card%d-VGA-1", dir, i, i))
		w.Relative(fmt.Sprintf("sys/class/drm/card%d-VGA-1", i), fmt.Sprintf("%s/drm/card%d/card%d-VGA-1", dir, i, i))
	}
	for i, render := range m.Renders {
		at := pci.Address{Bus: 0x02, Device: uint8(i) & 0x1f}
		dir := "sys/devices/pci0000:00/" + at.String()
		w.pciFiles(dir, 0x10de, 0x2335, 0xa1, 0x030200, 0, at)
		w.minor(dir, "renderD", render)
	}
}

// load gives a card the driver: the lowest minors that are free, in the order in
// which the driver asks for them. A platform device that gets none is not made, nor
// are those after it.
func (t *Tree) load(gpu int) error {
	l := &loaded{GPU: t.machine.GPUs[gpu]}
	for t.taken(func(o *loaded) bool { return o.hwmon == l.hwmon }) {
		l.hwmon++
	}
	t.loaded = append(t.loaded, l)
	count := 1
	if l.Compute != "" {
		count = maxXCP
	}
	for i := range count {
		card, render := t.free(t.machine.Cards, drmMinors, nil, func(d drmDevice) int { return d.card }),
			t.free(firstRender, firstRender+drmMinors, t.machine.Renders, func(d drmDevice) int { return d.render })
		if card < 0 || render < 0 {
			break
		}
		d := drmDevice{card: card, render: render}
		if i > 0 {
			d.platform = t.platform()
		}
		l.drm = append(l.drm, d)
	}
	if len(l.drm) == 0 {
		return fmt.Errorf("no DRM minor is left for the GPU %s", l.Address)
	}
	return t.show(l)
}

// show makes the driver's and DRM's side of a card.
func (t *Tree) show(l *loaded) error {
	w := newWriter(t.Root)
	w.bind(t.machine, l)
	for _, d := range l.drm {
		dir := l.path()
		if d.platform != "" {
			dir = "sys/devices/platform/" + d.platform
			w.File(dir+"/modalias", "platform:"+d.platform+"\n")
		}
		w.minor(dir, "card", d.card)
		w.minor(dir, "renderD", d.render)
	}
	return w.Err
}

// hide removes the DRM devices of a card.
func (t *Tree) hide(l *loaded) error {
	w := newWriter(t.Root)
	for _, d := range slices.Backward(l.drm) {
		w.noMinor("renderD", d.render)
		w.noMinor("card", d.card)
		if d.platform != "" {
			w.Remove("sys/devices/platform/" + d.platform)
		} else {
			w.Remove(l.path() + "/drm")
		}
	}
	return w.Err
}

func (t *Tree) taken(is func(*loaded) bool) bool { return slices.ContainsFunc(t.loaded, is) }

// free is the lowest number from first on that no DRM device and nobody else has;
// -1 if there is none below the limit.
func (t *Tree) free(first, limit int, others []int, of func(drmDevice) int) int {
	for n := first; n < limit; n++ {
		used := t.taken(func(l *loaded) bool {
			return slices.ContainsFunc(l.drm, func(d drmDevice) bool { return of(d) == n })
		})
		if !used && !slices.Contains(others, n) {
			return n
		}
	}
	return -1
}

// platform is a name for a new platform device.
func (t *Tree) platform() string {
	form := "amdgpu_xcp_%d"
	if t.machine.Dotted {
		form = "amdgpu_xcp.%d"
	}
	for n := 0; ; n++ {
		name := fmt.Sprintf(form, n)
		if !t.taken(func(l *loaded) bool {
			return slices.ContainsFunc(l.drm, func(d drmDevice) bool { return d.platform == name })
		}) {
			return name
		}
	}
}

// minor makes one DRM minor of a device.
func (w *writer) minor(device, kind string, number int) {
	name := fmt.Sprintf("%s%d", kind, number)
	dir := path.Join(device, "drm", name)
	w.File(dir+"/dev", fmt.Sprintf("%d:%d\n", drmMajor, number))
	w.File(dir+"/uevent", fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=dri/%s\nDEVTYPE=drm_minor\n", drmMajor, number, name))
	w.Relative(dir+"/device", device)
	w.Relative("sys/class/drm/"+name, dir)
	w.Relative(fmt.Sprintf("sys/dev/char/%d:%d", drmMajor, number), dir)
	w.Node("dev/dri/"+name, drmMajor, number)
}

func (w *writer) noMinor(kind string, number int) {
	name := fmt.Sprintf("%s%d", kind, number)
	w.Remove("dev/dri/" + name)
	w.Remove("sys/class/drm/" + name)
	w.Remove(fmt.Sprintf("sys/dev/char/%d:%d", drmMajor, number))
}
