package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

func startGroup() group {
	return group{
		id: "start", clouds: []string{emulator}, components: harness.APIComponents(),
		size: func(o options) int { return o.objects },
		benchmarks: []benchmark{
			{
				id: "synced", name: "start to synced with %d Networks ÷ a bare typed informer", limit: 1.5,
				how: "From the start of the process until its /readyz answers 200. It is a standby, whose caches are full and " +
					"which writes nothing; nothing is in Neutron. The other process has one informer of the generated " +
					"client, with no handler, and says when it is synced.",
			},
			{
				id: "memory", name: "resident bytes per Network, of %d ÷ a bare typed informer", limit: 1.5,
				how: "Of the same two processes, three seconds after they are synced: what is resident beyond what is " +
					"without a Network, per Network.",
			},
		},
		measure: measureStart,
	}
}

// informerVariable names the kubeconfig of a process that is to be the bare informer.
const informerVariable = "NETWORK_CONTROLLER_BENCH_INFORMER"

// runInformer is the bare informer: it lists and watches Networks, says when it is synced, and stays until it is
// killed.
func runInformer(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx := context.Background()
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Cloudteam().V1().Networks().Informer()
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	fmt.Println(synced)
	// The parent has the other end, which closes with it.
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

const synced = "synced"

// started is what a process that has started gives.
type started struct {
	took     time.Duration
	resident float64
}

// settle is how long a process is left alone before its memory is looked at: what decoding left behind is given back to
// the system a while later.
const settle = 3 * time.Second

// holdLease has nobody lead for as long as the group is measured.
func (b *bench) holdLease(ctx context.Context) error {
	_, err := b.Kube.CoordinationV1().Leases(harness.AccountName).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: harness.AccountName, Name: "network-controller"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("bench"), LeaseDurationSeconds: new(int32(24 * 60 * 60)), LeaseTransitions: new(int32(0)),
			AcquireTime: new(metav1.NowMicro()), RenewTime: new(metav1.NowMicro()),
		},
	}, metav1.CreateOptions{})
	return err
}

func measureStart(ctx context.Context, b *bench) error {
	if err := b.holdLease(ctx); err != nil {
		return err
	}
	namespace, err := b.newNamespace(ctx)
	if err != nil {
		return err
	}
	s, err := b.openSite(ctx, 0)
	if err != nil {
		return err
	}
	emptyInformer, err := b.startInformer(ctx)
	if err != nil {
		return err
	}
	emptyController, err := b.startStandby(ctx, s, "")
	if err != nil {
		return err
	}
	b.say("applying %s Networks", grouped(b.size))
	if err := b.apply(ctx, namespace, b.size); err != nil {
		return err
	}
	for round := range b.rounds {
		var informer, standby started
		// Whoever asks second finds kube-apiserver warmer.
		for part := range 2 {
			if (round+part)%2 == 0 {
				informer, err = b.startInformer(ctx)
			} else {
				standby, err = b.startStandby(ctx, s, "start")
			}
			if err != nil {
				return err
			}
		}
		perObject := func(full, empty started) float64 { return (full.resident - empty.resident) / float64(b.size) }
		informerBytes, standbyBytes := perObject(informer, emptyInformer), perObject(standby, emptyController)
		b.say("round %d: informer in %s, %.0f bytes a Network; controller in %s, %.0f bytes", round+1,
			short(informer.took), informerBytes, short(standby.took), standbyBytes)
		b.report.add("synced", standby.took.Seconds()/informer.took.Seconds())
		b.report.add("memory", standbyBytes/informerBytes)
	}
	if calls := writes(s.since(0)); len(calls) > 0 {
		return fmt.Errorf("the standby wrote to Neutron: %s %s", calls[0].method, calls[0].uri)
	}
	return nil
}

// startStandby starts a controller that does not lead, until it is synced, and ends it.
func (b *bench) startStandby(ctx context.Context, s *site, profile string) (started, error) {
	began := time.Now()
	c, err := b.launch(ctx, s, b.Kubeconfig, "--leader-elect-resource-namespace="+harness.AccountName)
	if err != nil {
		return started{}, err
	}
	defer c.kill()
	profiled := func() error { return nil }
	if profile != "" {
		profiled = b.profile(ctx, c, profile)
	}
	if err := c.awaitReady(ctx); err != nil {
		return started{}, err
	}
	took := time.Since(began)
	if err := rest(ctx, settle); err != nil {
		return started{}, err
	}
	resident, err := residentBytes(c.PID())
	if err != nil {
		return started{}, err
	}
	return started{took, resident}, profiled()
}

// startInformer is startStandby for the bare informer: this program, in another part.
func (b *bench) startInformer(ctx context.Context) (started, error) {
	program, err := os.Executable()
	if err != nil {
		return started{}, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), informerVariable+"="+b.Kubeconfig)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return started{}, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return started{}, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return started{}, err
	}
	// It ends by the kill, and of an end before that the missing line tells.
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		stdin.Close()
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if strings.TrimSpace(line) != synced {
		return started{}, fmt.Errorf("the bare informer printed %q: %w", line, err)
	}
	took := time.Since(began)
	if err := rest(ctx, settle); err != nil {
		return started{}, err
	}
	resident, err := residentBytes(cmd.Process.Pid)
	return started{took, resident}, err
}
