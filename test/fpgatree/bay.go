package fpgatree

import (
	"fmt"

	"github.com/accelmux/accelmux/backends/pci"
)

// bay has a card or an FPGA that is described, whether or not it is plugged in.
type bay struct {
	functions []pci.Address
	// plug makes what is there without a driver, and load what the drivers have.
	plug func() error
	load func(*loaded) error
	// loaded is what the drivers have; nil without them.
	loaded    *loaded
	unplugged bool
}

// loaded is what drivers have of a card.
type loaded struct {
	Card
	numbers []number
	links   []string // of classes
	nodes   []string // in dev
	dirs    []string // what else goes with the driver
	// manager is the number of the manager of a Plain.
	manager int
}

// number is one of those that the kernel gives: the lowest that is free.
type number struct {
	kind string
	n    int
}

// at is the bay with a number.
func at(bays []*bay, i int) (*bay, error) {
	if i < 0 || i >= len(bays) {
		return nil, fmt.Errorf("no card %d is described", i)
	}
	return bays[i], nil
}

// Unplug takes one of Machine.Cards away with all its functions: first the driver's part.
func (t *Tree) Unplug(i int) error { return t.unplug(t.cards, i) }

// UnplugAlveo is Unplug for one of Machine.Alveos.
func (t *Tree) UnplugAlveo(i int) error { return t.unplug(t.alveos, i) }

func (t *Tree) unplug(bays []*bay, i int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, err := at(bays, i)
	if err != nil {
		return err
	}
	if err := t.unbind(b); err != nil {
		return err
	}
	w := t.writer()
	for _, function := range b.functions {
		w.Remove("sys/bus/pci/devices/" + function.String())
		w.Remove(directory(function))
	}
	b.unplugged = true
	return w.Err
}

// Plug puts a card back that was unplugged.
func (t *Tree) Plug(i int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, err := at(t.cards, i)
	if err != nil {
		return err
	}
	if err := b.plug(); err != nil {
		return err
	}
	b.unplugged = false
	return b.bind()
}

// ReloadDriver unloads the driver of Machine.Cards and loads it again. It finds the cards in
// the order given, as indices: regions, engines, ports and sensors are numbered anew. Cards
// that are not in the order are left without a driver.
func (t *Tree) ReloadDriver(order ...int) error { return t.reload(t.cards, order) }

// ReloadXRT is ReloadDriver for XRT's drivers and Machine.Alveos.
func (t *Tree) ReloadXRT(order ...int) error { return t.reload(t.alveos, order) }

// ReloadPlain is ReloadDriver for Machine.Plain.
func (t *Tree) ReloadPlain(order ...int) error { return t.reload(t.plain, order) }

func (t *Tree) reload(bays []*bay, order []int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range bays {
		if err := t.unbind(b); err != nil {
			return err
		}
	}
	for _, i := range order {
		switch b, err := at(bays, i); {
		case err != nil:
			return err
		case b.unplugged || b.loaded != nil:
			return fmt.Errorf("card %d is not plugged in, or in the order twice", i)
		default:
			if err := b.bind(); err != nil {
				return err
			}
		}
	}
	return nil
}

// bind gives a card its drivers.
func (b *bay) bind() error {
	b.loaded = &loaded{}
	return b.load(b.loaded)
}

// unbind takes the drivers from a card, if it has them.
func (t *Tree) unbind(b *bay) error {
	l := b.loaded
	if l == nil {
		return nil
	}
	b.loaded = nil
	err := t.drop(l)
	return err
}

// drop removes what drivers have made.
func (t *Tree) drop(l *loaded) error {
	w := t.writer()
	for _, node := range l.nodes {
		w.Remove(node)
	}
	for _, dir := range l.dirs {
		w.Remove(dir)
	}
	for _, link := range l.links {
		w.Remove(link)
	}
	for _, n := range l.numbers {
		delete(t.numbers[n.kind], n.n)
	}
	return w.Err
}

// take gives a card the lowest number of a kind that is free.
func (t *Tree) take(l *loaded, kind string) int {
	used := t.numbers[kind]
	if used == nil {
		used = map[int]bool{}
		t.numbers[kind] = used
	}
	n := 0
	for used[n] {
		n++
	}
	used[n] = true
	l.numbers = append(l.numbers, number{kind, n})
	return n
}
