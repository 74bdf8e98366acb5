package hostile

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

const (
	// manyDevices are far more than the contract allows, in a message that it allows.
	manyDevices = 70_000
	// bigMessage is far beyond the contract's limit, in bytes.
	bigMessage = 100 << 20
)

func floods() []Misdeed {
	return []Misdeed{
		{
			Name: "many-devices", Group: Floods, What: "lists 70,000 devices",
			lie: func(i *backendv1.Inventory) {
				for n := range manyDevices {
					i.Devices = append(i.Devices, device(fmt.Sprintf("flood-%d", n)))
				}
			},
		},
		{
			Name: "big-messages", Group: Floods, What: "sends messages of 100 MB",
			lie: func(i *backendv1.Inventory) { i.Problems = []string{strings.Repeat("z", bigMessage)} },
		},
		{
			// An allowed size, and every one of them another inventory.
			Name: "heavy-messages", Group: Floods, What: "sends messages of 7 MB as fast as it can",
			watch: func(b *backend, stream watchStream) error {
				text := strings.Repeat("z", backendplugin.MaxMessageSize-1<<20)
				for on() {
					next := b.inventory()
					next.Problems = []string{text}
					if err := send(stream, next); err != nil {
						return err
					}
				}
				return nil
			},
		},
		{
			Name: "many-updates", Group: Floods, What: "sends 10,000 updates a second",
			watch: func(b *backend, stream watchStream) error {
				for n := 0; on(); n++ {
					next := b.inventory()
					next.Devices[0].Health.Message = fmt.Sprint("update ", n)
					if err := send(stream, next); err != nil {
						return err
					}
				}
				return nil
			},
		},
		{
			Name: "many-log-lines", Group: Floods, What: "logs lines without end",
			running: func() {
				go writeOn(rawStderr, []byte(`{"@level":"error","@message":"the same again","@module":"flood"}`+"\n"))
			},
		},
		{
			Name: "endless-log-line", Group: Floods, What: "logs a line without end",
			running: func() { go writeOn(rawStderr, []byte("and on and on ")) },
		},
		{
			Name: "endless-output", Group: Floods, What: "writes to its standard output without end",
			running: func() { go writeOn(rawStdout, []byte("and on and on\n")) },
		},
		{
			Name: "many-samples", Group: Floods, What: "sends telemetry without end", Call: "Sample",
			sample: func(stream sampleStream) error {
				for on() {
					if err := stream.Send(&backendv1.SampleResponse{Metrics: []*backendv1.Metric{metric("load_ratio", 0.5)}}); err != nil {
						return err
					}
				}
				return nil
			},
		},
		{
			Name: "many-metrics", Group: Floods, What: "measures 70,000 values at once", Call: "Sample",
			sample: func(stream sampleStream) error {
				// What it has before the flood it keeps.
				if err := stream.Send(&backendv1.SampleResponse{Metrics: []*backendv1.Metric{metric("load_ratio", 0.5)}}); err != nil {
					return err
				}
				metrics := make([]*backendv1.Metric, manyDevices)
				for i := range metrics {
					metrics[i] = metric(fmt.Sprintf("flood_%d", i%512), float64(i))
					metrics[i].Labels = map[string]string{"place": fmt.Sprint(i)}
				}
				if err := stream.Send(&backendv1.SampleResponse{Metrics: metrics}); err != nil {
					return err
				}
				<-stream.Context().Done()
				return nil
			},
		},
	}
}

// writeOn writes as much as it can while it is time for the misdeed.
func writeOn(to *os.File, text []byte) {
	block := bytes.Repeat(text, 64<<10/len(text))
	for on() {
		if _, err := to.Write(block); err != nil {
			return
		}
	}
}
