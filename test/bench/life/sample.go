package life

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
)

// measured is what an agent has, by kinds' names.
type measured map[string]float64

// kinds are what is measured, and by how much it may be more than before.
var kinds = []struct {
	name, unit string
	slack      float64
	part       float64 // instead of slack
}{
	{"goroutines", "", slackGoroutines, 0},
	{"file descriptors", "", slackFiles, 0},
	{"threads", "", slackThreads, 0},
	{"child processes", "", 0, 0},
	{"files and sockets", "", 0, 0},
	{"anonymous memory", "MB", 0, slackMemory},
	{"heap", "MB", 0, slackMemory},
}

// sample is what there is now: the least of some looks.
func (l *life) sample() (measured, error) {
	all := map[string][]float64{}
	for range looks {
		if err := l.look(all); err != nil {
			return nil, err
		}
	}
	result := measured{}
	for _, what := range kinds {
		result[what.name] = slices.Min(all[what.name])
	}
	return result, nil
}

// look adds one heap and some samples of everything else.
func (l *life) look(all map[string][]float64) error {
	heap, err := l.heap()
	if err != nil {
		return err
	}
	all["heap"] = append(all["heap"], heap)
	<-time.After(calm)
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for range samples {
		<-tick.C
		one, err := l.once()
		if err != nil {
			return err
		}
		for name, value := range one {
			all[name] = append(all[name], value)
		}
	}
	return nil
}

// heap is what collections of garbage find in use while the agent is asked for its metrics
// again and again, which makes the garbage, in MiB: the one in the middle. What a single one
// finds has in it what was in hand just then.
func (l *life) heap() (float64, error) {
	var found []float64
	for last := -1.0; len(found) < passed+collections; {
		metrics, err := l.scrape()
		if err != nil {
			return 0, err
		}
		if count := metrics["go_gc_duration_seconds_count"]; count > last {
			last = count
			found = append(found, metrics["go_gc_heap_live_bytes"]/(1<<20))
		}
	}
	found = found[passed:]
	slices.Sort(found)
	return found[len(found)/2], nil
}

// once is one sample.
func (l *life) once() (measured, error) {
	metrics, err := l.scrape()
	if err != nil {
		return nil, err
	}
	pid := l.agent.command.Process.Pid
	status, err := procStatus(pid)
	if err != nil {
		return nil, err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, err
	}
	children, err := childrenOf(pid)
	if err != nil {
		return nil, err
	}
	files := 0
	for _, dir := range []string{first, "state", "cdi", "kubelet"} {
		if err := filepath.WalkDir(l.path(dir), func(_ string, _ fs.DirEntry, err error) error {
			if files++; errors.Is(err, fs.ErrNotExist) {
				return nil // it went meanwhile
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	return measured{
		"goroutines": metrics["go_goroutines"], "file descriptors": float64(len(open)), "threads": status["Threads"],
		"child processes": float64(children), "files and sockets": float64(files),
		"anonymous memory": status["RssAnon"] / 1024,
	}, nil
}

// scrape asks for the agent's metrics; those with labels are left out.
func (l *life) scrape() (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	request.Close = true // a connection that is kept would be among what is counted
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read only
	values := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = number
		}
	}
	_, _ = io.Copy(io.Discard, response.Body) // all of it was read
	return values, lines.Err()
}

// procStatus has the numbers of proc_pid_status(5), sizes in KiB.
func procStatus(pid int) (map[string]float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if number, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 64); err == nil {
			values[name] = number
		}
	}
	return values, nil
}

// childrenOf counts a process's children, zombies included.
func childrenOf(pid int) (int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	count := 0
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread is gone
		}
		count += len(strings.Fields(string(text)))
	}
	return count, nil
}

// waitUnits waits until kubelet has so many units of every resource.
func (l *life) waitUnits(units int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return l.kubelet.WaitFor(ctx, func(s kubelettest.State) bool {
		for _, name := range backends {
			if r := s.Resources[resource(name)]; r.Connections == 0 || r.Allocatable != units {
				return false
			}
		}
		return true
	})
}

// capable is whether kubelet got a list of what there is to be.
func (l *life) capable(e kubelettest.Event) bool {
	return e.Type == kubelettest.EventDevices && e.Allocatable >= units
}
