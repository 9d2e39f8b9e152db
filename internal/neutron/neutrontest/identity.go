package neutrontest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The domain, the region and the roles of the emulated Keystone, as its bootstrap names them.
const (
	domainID   = "default"
	domainName = "Default"
	regionName = "RegionOne"
	roleAdmin  = "admin"
	roleMember = "member"
	roleReader = "reader"
)

// caller is who a token speaks for.
type caller struct {
	project string // id
	admin   bool
}

// user is a person or a program with a password and one role in one project of the same name.
type user struct {
	id        string
	name      string
	password  string
	projectID string
	roles     []string // each role and those it implies
	secret    string   // of the application credential whose id is the user's
}

// token is what a client has bought with its password.
type token struct {
	user    *user
	method  string
	scoped  bool
	auditID string
	issued  time.Time
	expires time.Time
}

// identity is the emulated Keystone: users who have each a project of their own name.
type identity struct {
	now       func() time.Time
	lifetime  time.Duration
	projectID func(name string) string
	users     []*user           // in the order of their making
	roleIDs   map[string]string // by name
	ids       map[string]string // of services and endpoints, by what they are

	mu     sync.Mutex // guards tokens
	tokens map[string]token
}

func newIdentity(now func() time.Time, options Options) *identity {
	k := &identity{
		now: now, lifetime: options.TokenLifetime, projectID: options.ProjectID,
		tokens:  make(map[string]token),
		roleIDs: make(map[string]string),
		ids:     make(map[string]string),
	}
	for _, role := range []string{roleAdmin, roleMember, roleReader} {
		k.roleIDs[role] = newHexID()
	}
	for _, name := range []string{"identity", "network"} {
		for _, part := range []string{"service", "public", "internal", "admin"} {
			k.ids[name+"/"+part] = newHexID()
		}
	}
	k.addUser("admin", roleReader, roleMember, roleAdmin)
	for _, name := range append([]string{"tenant"}, options.Tenants...) {
		k.addUser(name, roleReader, roleMember)
	}
	return k
}

func (k *identity) addUser(name string, roles ...string) {
	k.users = append(k.users, &user{
		id: newHexID(), name: name, password: newHexID(), projectID: k.projectID(name), roles: roles, secret: newSecret(),
	})
}

func (k *identity) find(match func(*user) bool) *user {
	for _, u := range k.users {
		if match(u) {
			return u
		}
	}
	return nil
}

// ProjectID gives the id of a project by its name: "admin", "tenant" or one of [Options.Tenants]. It is empty if there
// is no such project.
func (s *Server) ProjectID(name string) string {
	if u := s.identity.find(func(u *user) bool { return u.name == name }); u != nil {
		return u.projectID
	}
	return ""
}

// RevokeTokens makes every token given out so far invalid, as a key rotation or a restart of Keystone may do. Clients
// see 401 and must ask for a new one.
func (s *Server) RevokeTokens() {
	s.identity.mu.Lock()
	defer s.identity.mu.Unlock()
	clear(s.identity.tokens)
}

// newSecret makes a random string of the length and alphabet of a Fernet token.
func newSecret() string {
	var b [129]byte
	_, _ = rand.Read(b[:]) // never fails, see its documentation
	return "gAAAAA" + base64.RawURLEncoding.EncodeToString(b[:])
}

// issue makes a new token and forgets those that have expired.
func (k *identity) issue(u *user, method string, scoped bool) (string, token) {
	now := k.now()
	t := token{
		user: u, method: method, scoped: scoped, auditID: newHexID()[:22], issued: now, expires: now.Add(k.lifetime),
	}
	id := newSecret()
	k.mu.Lock()
	defer k.mu.Unlock()
	for old, t := range k.tokens {
		if !now.Before(t.expires) {
			delete(k.tokens, old)
		}
	}
	k.tokens[id] = t
	return id, t
}

// lookup gives the token if it is valid.
func (k *identity) lookup(id string) (token, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.tokens[id]
	return t, ok && k.now().Before(t.expires)
}

func (k *identity) revoke(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.tokens, id)
}

// authenticate gives the caller that the request's token speaks for.
func (k *identity) authenticate(r *http.Request) (*caller, bool) {
	t, ok := k.lookup(r.Header.Get("X-Auth-Token"))
	if !ok || !t.scoped {
		return nil, false
	}
	return t.caller(), true
}

func (t token) caller() *caller {
	c := &caller{project: t.user.projectID}
	for _, role := range t.user.roles {
		c.admin = c.admin || role == roleAdmin
	}
	return c
}

func writeIdentityError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{
		"error": map[string]any{"code": status, "message": message, "title": http.StatusText(status)},
	})
}

// unauthorized is Keystone's answer to a wrong password, an unknown project and a bad token alike, and that of the
// middleware in front of Neutron.
func (s *Server) unauthorized(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Keystone uri="`+s.base(r)+identityPrefix+`/v3"`)
	writeIdentityError(w, http.StatusUnauthorized, "The request you have made requires authentication.")
}

func malformed(w http.ResponseWriter, expected string) {
	writeIdentityError(w, http.StatusBadRequest, "Expecting to find "+expected+". The server could not comply with "+
		"the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.")
}

// serveIdentity answers as Keystone; path is below its mount point.
func (s *Server) serveIdentity(w http.ResponseWriter, r *http.Request, path string) Call {
	call := Call{Path: strings.TrimSuffix(path, "/"), Items: 1}
	switch call.Path {
	case "":
		call.Path = "/"
		w.Header().Set("Location", s.base(r)+identityPrefix+"/v3/")
		writeJSON(w, http.StatusMultipleChoices, map[string]any{
			"versions": map[string]any{"values": []any{s.identityVersion(r)}},
		})
	case "/v3":
		writeJSON(w, http.StatusOK, map[string]any{"version": s.identityVersion(r)})
	case "/v3/auth/tokens":
		switch r.Method {
		case http.MethodPost:
			s.createToken(w, r, &call)
		case http.MethodGet, http.MethodHead, http.MethodDelete:
			s.withToken(w, r, &call)
		default:
			writeIdentityError(w, http.StatusMethodNotAllowed, "The method is not allowed for the requested URL.")
		}
	default:
		call.Path = "/unknown"
		http.Error(w, "The requested URL was not found on the server.", http.StatusNotFound)
	}
	return call
}

func (s *Server) identityVersion(r *http.Request) map[string]any {
	return map[string]any{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links": []any{map[string]string{"rel": "self", "href": s.base(r) + identityPrefix + "/v3/"}},
		"media-types": []any{map[string]string{
			"base": "application/json", "type": "application/vnd.openstack.identity-v3+json",
		}},
	}
}

// reference names a domain, a project or a user, by id or by name.
type reference struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	Domain *reference `json:"domain"`
}

func (d *reference) isDefaultDomain() bool {
	return d.ID == domainID || d.ID == "" && d.Name == domainName
}

type passwordRequest struct {
	User *struct {
		reference
		Password string `json:"password"`
	} `json:"user"`
}

type credentialRequest struct {
	reference
	Secret string     `json:"secret"`
	User   *reference `json:"user"`
}

type authRequest struct {
	Auth *struct {
		Identity struct {
			Methods    []string           `json:"methods"`
			Password   *passwordRequest   `json:"password"`
			Credential *credentialRequest `json:"application_credential"`
		} `json:"identity"`
		Scope json.RawMessage `json:"scope"`
	} `json:"auth"`
}

// createToken answers POST /v3/auth/tokens. A token is scoped to the user's project unless the request says
// "unscoped"; asking for no scope leaves it unscoped too, since no user has a default project.
func (s *Server) createToken(w http.ResponseWriter, r *http.Request, call *Call) {
	var body authRequest
	data, err := io.ReadAll(r.Body)
	if err != nil || len(data) > 0 && json.Unmarshal(data, &body) != nil {
		malformed(w, "valid JSON in request body")
		return
	}
	if body.Auth == nil {
		malformed(w, "auth in request body")
		return
	}
	asked := body.Auth.Identity
	if len(asked.Methods) != 1 {
		s.unauthorized(w, r)
		return
	}
	var u *user
	scoped := false
	switch method := asked.Methods[0]; {
	case method == "password" && asked.Password != nil && asked.Password.User != nil:
		given := asked.Password.User
		if given.ID == "" && given.Domain == nil {
			malformed(w, "domain in user")
			return
		}
		u = s.identity.find(func(u *user) bool { return u.isNamed(given.reference) && u.password == given.Password })
	case method == "application_credential" && asked.Credential != nil:
		given := asked.Credential
		u = s.identity.find(func(u *user) bool {
			return u.secret == given.Secret && (given.ID == u.id || given.ID == "" && given.Name == u.name &&
				given.User != nil && u.isNamed(*given.User))
		})
		scoped = true
	default:
		malformed(w, method+" in identity")
		return
	}
	if u == nil {
		s.unauthorized(w, r)
		return
	}
	var scope struct {
		Project *reference `json:"project"`
	}
	// A scope that is no object is the word "unscoped".
	if json.Unmarshal(body.Auth.Scope, &scope) == nil && scope.Project != nil {
		p := scope.Project
		if p.ID == "" && p.Domain == nil {
			malformed(w, "domain in project")
			return
		}
		// A user's project bears the user's name, and no user has a role in another's.
		if p.ID != u.projectID && (p.ID != "" || p.Name != u.name || !p.Domain.isDefaultDomain()) {
			s.unauthorized(w, r)
			return
		}
		scoped = true
	}
	id, t := s.identity.issue(u, asked.Methods[0], scoped)
	call.Project = u.projectID
	w.Header().Set("X-Subject-Token", id)
	w.Header().Set("Vary", "X-Auth-Token")
	writeJSON(w, http.StatusCreated, map[string]any{"token": s.tokenBody(r, t)})
}

func (u *user) isNamed(ref reference) bool {
	if ref.ID != "" {
		return ref.ID == u.id
	}
	return ref.Name == u.name && ref.Domain != nil && ref.Domain.isDefaultDomain()
}

// withToken answers GET, HEAD and DELETE of /v3/auth/tokens: a token may look at itself and revoke itself, an admin's
// any.
func (s *Server) withToken(w http.ResponseWriter, r *http.Request, call *Call) {
	own := r.Header.Get("X-Auth-Token")
	t, ok := s.identity.lookup(own)
	if !ok {
		s.unauthorized(w, r)
		return
	}
	call.Project = t.user.projectID
	subject := r.Header.Get("X-Subject-Token")
	if subject != own && !t.caller().admin {
		action := "identity:validate_token"
		if r.Method == http.MethodDelete {
			action = "identity:revoke_token"
		}
		writeIdentityError(w, http.StatusForbidden,
			"You are not authorized to perform the requested action: "+action+".")
		return
	}
	found, ok := s.identity.lookup(subject)
	switch {
	case !ok:
		writeIdentityError(w, http.StatusNotFound, "Could not recognize Fernet token")
	case r.Method == http.MethodDelete:
		s.identity.revoke(subject)
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("X-Subject-Token", subject)
		w.Header().Set("Vary", "X-Auth-Token")
		writeJSON(w, http.StatusOK, map[string]any{"token": s.tokenBody(r, found)})
	}
}

func (s *Server) tokenBody(r *http.Request, t token) map[string]any {
	const keystoneTime = "2006-01-02T15:04:05.000000Z"
	domain := map[string]string{"id": domainID, "name": domainName}
	body := map[string]any{
		"methods": []string{t.method},
		"user": map[string]any{
			"domain": domain, "id": t.user.id, "name": t.user.name, "password_expires_at": nil,
		},
		"audit_ids":  []string{t.auditID},
		"expires_at": t.expires.UTC().Format(keystoneTime),
		"issued_at":  t.issued.UTC().Format(keystoneTime),
	}
	if !t.scoped {
		return body
	}
	roles := make([]map[string]string, 0, len(t.user.roles))
	for _, role := range t.user.roles {
		roles = append(roles, map[string]string{"id": s.identity.roleIDs[role], "name": role})
	}
	body["project"] = map[string]any{"domain": domain, "id": t.user.projectID, "name": t.user.name}
	body["is_domain"] = false
	body["roles"] = roles
	if t.method == "application_credential" {
		body["application_credential"] = map[string]any{"id": t.user.id, "name": t.user.name, "restricted": true}
	}
	if _, without := r.URL.Query()["nocatalog"]; !without {
		body["catalog"] = []any{
			s.service(r, "identity", "keystone", identityPrefix+"/v3"),
			s.service(r, "network", "neutron", networkPrefix),
		}
	}
	return body
}

// service is one entry of the catalog; all interfaces of a service have one URL.
func (s *Server) service(r *http.Request, kind, name, path string) map[string]any {
	endpoints := make([]any, 0, 3)
	for _, face := range []string{"public", "internal", "admin"} {
		endpoints = append(endpoints, map[string]string{
			"id": s.identity.ids[kind+"/"+face], "interface": face, "region_id": regionName, "region": regionName,
			"url": s.base(r) + path,
		})
	}
	return map[string]any{"endpoints": endpoints, "id": s.identity.ids[kind+"/service"], "type": kind, "name": name}
}
