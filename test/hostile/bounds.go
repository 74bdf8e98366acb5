package hostile

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Bounds stay within every bound of the contract: as many devices as are allowed, with other
// values three times a second. They are not in [All], since the agent has to accept them:
// what counts is how much memory it takes.
func Bounds() []Misdeed {
	changing := func(name, what string, change func(d *backendv1.Device, number, round int)) Misdeed {
		return Misdeed{Name: name, Group: Floods, What: what, watch: func(b *backend, stream watchStream) error {
			for round := 0; on(); round++ {
				next := b.inventory()
				for n := len(next.Devices); n < backendplugin.MaxDevices; n++ {
					next.Devices = append(next.Devices, device(fmt.Sprintf("hostile-%d", n)))
				}
				for n, d := range next.GetDevices()[Devices:] {
					change(d, n, round)
				}
				if err := send(stream, next); err != nil {
					return err
				}
				select {
				case <-stream.Context().Done():
					return nil
				case <-time.After(300 * time.Millisecond):
				}
			}
			return nil
		}}
	}
	lists := func(d *backendv1.Device, n, round int) {
		d.Attributes = map[string]*backendv1.Attribute{}
		for i := range 8 {
			values := make([]int64, 48)
			for k := range values {
				values[k] = int64((round + n + i + k) % 128)
			}
			d.Attributes[fmt.Sprintf("a%d", i)] = &backendv1.Attribute{Value: &backendv1.Attribute_IntValues{IntValues: &backendv1.Ints{Values: values}}}
		}
	}
	everything := changing("everything", "has new lists of numbers, 8 at each of 4,096 devices, and 15,000 metrics, all the time", lists)
	everything.Call = "Sample"
	everything.sample = func(stream sampleStream) error {
		for on() {
			all := &backendv1.SampleResponse{Time: timestamppb.Now()}
			for i := range 15_000 {
				all.Metrics = append(all.Metrics, &backendv1.Metric{
					DeviceId: fmt.Sprintf("hostile-%d", i%backendplugin.MaxDevices), Name: fmt.Sprintf("metric%d_celsius", i/backendplugin.MaxDevices),
					Kind: backendv1.MetricKind_METRIC_KIND_GAUGE, Value: float64(i), Labels: map[string]string{"sensor": "a"},
				})
			}
			if err := stream.Send(all); err != nil {
				return err
			}
			select {
			case <-stream.Context().Done():
				return nil
			case <-time.After(time.Second):
			}
		}
		return nil
	}
	return []Misdeed{
		everything,
		changing("new-faults", "has new faults at 4,096 devices all the time", func(d *backendv1.Device, n, round int) {
			d.Health = &backendv1.Health{
				State: backendv1.HealthState_HEALTH_STATE_UNHEALTHY, Recovery: backendv1.Recovery_RECOVERY_RESET,
				Code: fmt.Sprintf("fault-%d-%d", round, n), Message: fmt.Sprint(round, n, strings.Repeat("m", 900)),
			}
		}),
		changing("new-links", "has new links between 4,096 devices all the time", func(d *backendv1.Device, n, round int) {
			for i := range 16 {
				peer := (n + 1 + (round*16+i)%(backendplugin.MaxDevices-Devices-1)) % (backendplugin.MaxDevices - Devices)
				d.Links = append(d.Links, &backendv1.Link{
					PeerId: fmt.Sprintf("hostile-%d", Devices+peer), Kind: backendv1.LinkKind_LINK_KIND_NVLINK, Count: uint32(1 + round%8), //nolint:gosec // small
				})
			}
		}),
		changing("new-attributes", "has new attributes, 54 at each of 4,096 devices, all the time", func(d *backendv1.Device, n, round int) {
			d.Attributes = map[string]*backendv1.Attribute{}
			for i := range 54 {
				d.Attributes[fmt.Sprintf("a%d", i)] = &backendv1.Attribute{Value: &backendv1.Attribute_StringValue{StringValue: fmt.Sprint(round, ".", n, ".", i)}}
			}
		}),
	}
}
