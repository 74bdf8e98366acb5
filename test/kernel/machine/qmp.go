package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Args are the arguments of a QMP command.
type Args map[string]any

// Monitor speaks QMP, QEMU's machine protocol (docs/interop/qmp-spec.rst there). Its methods may be called from any
// goroutine.
type Monitor struct {
	conn    net.Conn
	calls   sync.Mutex
	replies chan reply

	mu      sync.Mutex
	deleted map[string]bool
}

type reply struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Desc string `json:"desc"`
	} `json:"error"`
	Event string `json:"event"`
	Data  struct {
		Device string `json:"device"`
	} `json:"data"`
}

func newMonitor(conn net.Conn) (*Monitor, error) {
	m := &Monitor{conn: conn, replies: make(chan reply), deleted: map[string]bool{}}
	go m.read()
	_, err := m.Command("qmp_capabilities", nil)
	return m, err
}

// read ends with the connection.
func (m *Monitor) read() {
	defer close(m.replies)
	for decoder := json.NewDecoder(m.conn); ; {
		var r reply
		if decoder.Decode(&r) != nil {
			return
		}
		switch {
		case r.Event == "DEVICE_DELETED":
			m.mu.Lock()
			m.deleted[r.Data.Device] = true
			m.mu.Unlock()
		case r.Return != nil || r.Error != nil:
			m.replies <- r
		}
	}
}

// Command runs a command, and returns what QEMU answered.
func (m *Monitor) Command(name string, args Args) (json.RawMessage, error) {
	m.calls.Lock()
	defer m.calls.Unlock()
	command := map[string]any{"execute": name}
	if args != nil {
		command["arguments"] = args
	}
	if err := json.NewEncoder(m.conn).Encode(command); err != nil {
		return nil, fmt.Errorf("QMP %s: %w", name, err)
	}
	r, ok := <-m.replies
	switch {
	case !ok:
		return nil, fmt.Errorf("QMP %s: %w", name, errors.New("QEMU has ended"))
	case r.Error != nil:
		return nil, fmt.Errorf("QMP %s %v: %s", name, args, r.Error.Desc)
	}
	return r.Return, nil
}

// Add plugs in a device, whose ID is in args.
func (m *Monitor) Add(driver, id string, args Args) error {
	all := Args{"driver": driver, "id": id}
	for name, value := range args {
		all[name] = value
	}
	m.mu.Lock()
	delete(m.deleted, id)
	m.mu.Unlock()
	_, err := m.Command("device_add", all)
	return err
}

// Delete asks for a device to be unplugged. The guest may take its time, or refuse: see Deleted.
func (m *Monitor) Delete(id string) error {
	_, err := m.Command("device_del", Args{"id": id})
	return err
}

// Deleted reports whether a device was unplugged since it was last added.
func (m *Monitor) Deleted(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deleted[id]
}
