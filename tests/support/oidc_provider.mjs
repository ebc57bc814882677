// The certified OpenID provider of npm, `oidc-provider`, with people whose groups the argument says.
// node oidc_provider.mjs FOLDER_OF_PACKAGES '{"port": 1, "client": {...}, "people": {"ann": {"groups": []}}}'
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(`${process.argv[2]}/`);
const { Provider } = await import(pathToFileURL(require.resolve('oidc-provider')));
const { port, client, people } = JSON.parse(process.argv[3]);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [client],
  claims: { openid: ['sub'], profile: ['name'], groups: ['groups'] },
  scopes: ['openid', 'profile', 'groups'],
  cookies: { keys: ['a key of the tests'] },
  features: { devInteractions: { enabled: true }, rpInitiatedLogout: { enabled: true } },
  findAccount: (_, id) => (people[id] ? { accountId: id, claims: () => ({ sub: id, ...people[id] }) } : undefined),
  // People are not asked for their consent: the operator of the provider gave it.
  async loadExistingGrant(ctx) {
    const grant = new ctx.oidc.provider.Grant({
      clientId: ctx.oidc.client.clientId,
      accountId: ctx.oidc.session.accountId,
    });
    grant.addOIDCScope('openid profile groups');
    await grant.save();
    return grant;
  },
});
const server = provider.listen(port, '127.0.0.1', () => console.log(server.address().port));
