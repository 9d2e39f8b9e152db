// Package kubectl is the command line of kubectl network.
package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/cli"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/bundle"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/capture"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/doctor"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/internal/version"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
)

// ExitError ends the program with a code and no message: the output has said everything.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// ExitCode is the code for an error of a command.
func ExitCode(err error) int {
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	if err != nil {
		return 1
	}
	return 0
}

// factory makes what the commands need from the user's flags.
type factory struct {
	config *genericclioptions.ConfigFlags
	genericiooptions.IOStreams
	now func() time.Time
	// clients makes the clients; tests replace it.
	clients func() (kubernetes.Interface, versioned.Interface, error)
	// ahead gives how far the API server's clock is ahead, by its answers; see doctor.Options. Tests replace it.
	ahead func() doctor.Clock
	// reviewed gives whether the user may do something; nil in tests whose API server knows no rights.
	reviewed func(kubernetes.Interface) func(context.Context, authorizationv1.ResourceAttributes) bool
	// id makes a part of names, and logs gives how logs are read; tests replace both.
	id   func() string
	logs func(kubernetes.Interface) logReader
	// exec runs a command in a container; see capture.Options. Tests replace it.
	exec capture.Exec
	// metrics reads those of a Pod at a port; see bundle.Metrics. Tests replace it.
	metrics func(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod, port int32) (string, error)
}

// NewCommand makes the command line.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	f := &factory{config: genericclioptions.NewConfigFlags(true), IOStreams: streams, now: time.Now,
		id: randomID, logs: podLogs, reviewed: ask.ReviewedBy}
	f.clients = f.connect
	f.ahead = func() doctor.Clock { return doctor.Clock{} }
	return f.command()
}

func (f *factory) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-network",
		Short: "Ask about networks in OpenStack Neutron, and the Pods on them",
		Long: `kubectl network answers questions about Networks, NetworkPorts, and the Pods and Deployments on them.

It uses your kubeconfig and your rights, and it changes nothing unless a command says so. It has the flags of
kubectl for the cluster and the user: see "kubectl options".`,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl network"},
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(f.In)
	root.SetOut(f.Out)
	root.SetErr(f.ErrOut)
	f.config.AddFlags(root.PersistentFlags())
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = !slices.Contains([]string{"namespace", "context", "kubeconfig"}, flag.Name) // as kubectl does
	})
	klog.SetOutput(io.Discard) // client-go logs what the commands say in words
	root.AddCommand(f.why(), f.tree(), f.top(), f.plan(), f.doctor(), f.bundle(), f.conntest(), f.capture(),
		f.orphans(), f.export(), f.adopt(), f.uninstall(), f.ui())
	return root
}

// progress writes a line of a command that takes long.
func (f *factory) progress(line string) { fmt.Fprintln(f.ErrOut, text.Plain(line)) }

// connect makes the clients of the user.
func (f *factory) connect() (kubernetes.Interface, versioned.Interface, error) {
	config, err := f.config.ToRESTConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent = cli.UserAgent("kubectl-network")
	config.QPS, config.Burst = 50, 100
	clock := &clock{}
	config.Wrap(clock.wrap)
	f.ahead = clock.ahead
	f.metrics = func(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod, port int32) (string, error) {
		return bundle.Metrics(ctx, config, kube, pod, port)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	f.exec = capture.ExecBy(config, kube)
	networks, err := versioned.NewForConfig(config)
	return kube, networks, err
}

// cluster is what the answer to one question is read from.
func (f *factory) cluster() (*ask.Cluster, error) {
	kube, networks, err := f.clients()
	c := &ask.Cluster{Kubernetes: kube, Networks: networks}
	if f.reviewed != nil && err == nil {
		c.May = f.reviewed(kube)
	}
	return c, err
}

// namespace is the namespace of the question.
func (f *factory) namespace() (string, error) {
	namespace, _, err := f.config.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// where gives the namespace of the question, or all of them, and the cluster that it is asked of.
func (f *factory) where(everywhere bool) (string, *ask.Cluster, error) {
	namespace, err := f.namespace()
	if err != nil {
		return "", nil, err
	}
	if everywhere {
		namespace = metav1.NamespaceAll
	}
	cluster, err := f.cluster()
	return namespace, cluster, err
}
