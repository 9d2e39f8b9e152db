package serving

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

const (
	// admittedFor and refusedFor are how long a caller's rights are not asked for again.
	admittedFor = time.Minute
	refusedFor  = 10 * time.Second
	// maxCallers limits the callers whose rights are remembered.
	maxCallers = 1024
	// reviewBurst is how many callers the API server is asked about at once.
	reviewBurst   = 5
	reviewTimeout = 5 * time.Second
	// certificateAge is how long a certificate file is used before it is read again.
	certificateAge = time.Minute
)

// authorized serves requests whose bearer token the API server authenticates, if RBAC lets the user get the path (a
// nonResourceURL). It sends the API server a TokenReview and a SubjectAccessReview, and remembers the result.
type authorized struct {
	next    http.Handler
	kube    kubernetes.Interface
	known   *cache.LRUExpireCache
	limiter *rate.Limiter
}

func newAuthorized(kube kubernetes.Interface, reviews rate.Limit, next http.Handler) *authorized {
	return &authorized{
		next: next, kube: kube, known: cache.NewLRUExpireCache(maxCallers), limiter: rate.NewLimiter(reviews, reviewBurst),
	}
}

// verdict is what a caller gets: http.StatusOK, or a refusal with its reason.
type verdict struct {
	status int
	reason string
}

// ServeHTTP implements http.Handler.
func (a *authorized) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "send the bearer token of an account that may get "+r.URL.Path, http.StatusUnauthorized)
		return
	}
	key := sha256.Sum256([]byte(r.URL.Path + " " + token))
	found, ok := a.known.Get(key)
	if !ok {
		asked, err := a.ask(r.Context(), token, r.URL.Path)
		if err != nil {
			klog.FromContext(r.Context()).V(2).Info("Asking for the rights of a caller failed", "err", err)
			http.Error(w, "the caller's rights are unknown now; retry later", http.StatusServiceUnavailable)
			return
		}
		lifetime := refusedFor
		if asked.status == http.StatusOK {
			lifetime = admittedFor
		}
		a.known.Add(key, asked, lifetime)
		found = asked
	}
	if is, _ := found.(verdict); is.status != http.StatusOK {
		http.Error(w, is.reason, is.status)
		return
	}
	a.next.ServeHTTP(w, r)
}

// ask asks the API server whose token it is, and whether its user may get a path.
func (a *authorized) ask(ctx context.Context, token, path string) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if err := a.limiter.Wait(ctx); err != nil {
		return verdict{}, err
	}
	ctx = klog.NewContext(ctx, klog.Logger{}) // at a high verbosity client-go logs bodies
	review, err := a.kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return verdict{}, fmt.Errorf("TokenReview: %w", err)
	}
	if !review.Status.Authenticated {
		return verdict{http.StatusUnauthorized, "the token is not valid"}, nil
	}
	user := review.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	access, err := a.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
			User:                  user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return verdict{}, fmt.Errorf("SubjectAccessReview: %w", err)
	}
	if !access.Status.Allowed || access.Status.Denied {
		return verdict{http.StatusForbidden, fmt.Sprintf("%s may not get %s: bind it to a ClusterRole that allows get of "+
			"this nonResourceURL, such as network-controller-metrics-reader", user.Username, path)}, nil
	}
	return verdict{status: http.StatusOK}, nil
}

// certificates gives the certificate of a TLS server: that in files, which may be replaced, or without files a
// self-signed one for a host.
func certificates(host, certFile, keyFile string) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if certFile == "" {
		certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("making a self-signed certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, fmt.Errorf("making a self-signed certificate: %w", err)
		}
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }, nil
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
	}
	var mu sync.Mutex
	read := time.Now()
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(read) > certificateAge {
			read = time.Now()
			// Half-written files leave the last certificate in use.
			if next, err := tls.LoadX509KeyPair(certFile, keyFile); err == nil {
				pair = next
			}
		}
		current := pair
		return &current, nil
	}, nil
}
